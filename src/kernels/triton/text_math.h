// The primitives of scores-inl.h for text: what a score computes becomes an expression of Triton's
// language. The functions that expressions call are python/ssa_attention/triton/primitives.py.
#pragma once

#include <charconv>
#include <string>

namespace ssa {

/// An expression and how tightly its outermost operation binds.
struct Text {
  enum Level { kSum, kProduct, kAtom };

  std::string code;
  Level level = kAtom;

  /// The code as an operand of an operation that binds as tightly as `least`.
  std::string at_least(Level least) const { return level < least ? "(" + code + ")" : code; }
};

/// Parentheses keep the order of operations that the score wrote down: rounding depends on it.
struct TextMath {
  Text constant(double value) const {
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
    std::string code(digits, end);
    if (code.find_first_of(".en") == std::string::npos) code += ".0";
    return {code};
  }
  Text add(const Text& a, const Text& b) const {
    return {a.code + " + " + b.at_least(Text::kProduct), Text::kSum};
  }
  Text sub(const Text& a, const Text& b) const {
    return {a.code + " - " + b.at_least(Text::kProduct), Text::kSum};
  }
  Text mul(const Text& a, const Text& b) const {
    return {a.at_least(Text::kProduct) + " * " + b.at_least(Text::kAtom), Text::kProduct};
  }
  Text recip(const Text& a) const { return {"1.0 / " + a.at_least(Text::kAtom), Text::kProduct}; }
  Text abs(const Text& a) const { return {"tl.abs(" + a.code + ")"}; }
  Text copy_sign(const Text& magnitude, const Text& sign) const {
    return {"copy_sign(" + magnitude.code + ", " + sign.code + ")"};
  }
  Text log2_1p(const Text& x) const { return {"log2_1p(" + x.code + ", careful)"}; }
  Text tanh(const Text& x) const { return {"tanh(" + x.code + ")"}; }
};

}  // namespace ssa
