#include "tasks/icl_prompt.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "files/json.h"

namespace ssa {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr std::string_view kSeparators = ", \t\r\n";

struct Point {
  float x = 0;
  std::optional<float> y;
};

std::optional<float> finite(double value) {
  const auto rounded = static_cast<float>(value);
  return std::isfinite(rounded) ? std::optional(rounded) : std::nullopt;
}

std::optional<float> number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);  // from_chars knows no plus sign
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return finite(value);
}

std::optional<float> number(const Json& value) {
  return value.is_number() ? finite(value.get<double>()) : std::nullopt;
}

/// "x" or "x:y"
std::optional<Point> point(std::string_view text) {
  const std::size_t colon = text.find(':');
  const auto x = number(text.substr(0, colon));
  if (!x) return std::nullopt;
  if (colon == std::string_view::npos) return Point{*x, {}};
  const auto y = number(text.substr(colon + 1));
  return y ? std::optional(Point{*x, y}) : std::nullopt;
}

/// x or [x, y]
std::optional<Point> point(const Json& value) {
  if (value.is_array() && value.size() == 2) {
    const auto x = number(value[0]), y = number(value[1]);
    return x && y ? std::optional(Point{*x, y}) : std::nullopt;
  }
  const auto x = number(value);
  return x ? std::optional(Point{*x, {}}) : std::nullopt;
}

/// Collects points; refuses a value that is none, saying which.
class Points {
 public:
  explicit Points(const std::string& origin) : origin_(origin) {}

  void add(const std::optional<Point>& read, std::string_view shown, const char* pair) {
    const std::size_t place = points_.size() + 1;
    if (!read) {
      throw std::invalid_argument(
          fmt::format("{}: value {}, {}, is neither a finite number nor a pair {}", origin_, place,
                      shown, pair));
    }
    if (!points_.empty() && read->y.has_value() != points_.front().y.has_value()) {
      throw std::invalid_argument(fmt::format(
          "{}: value {}, {}, {} a y, the values before {}: give y for every x or for "
          "none",
          origin_, place, shown, read->y ? "has" : "lacks", read->y ? "lack it" : "have one"));
    }
    points_.push_back(*read);
  }

  const std::vector<Point>& all() const { return points_; }

 private:
  const std::string& origin_;
  std::vector<Point> points_;
};

void read_json_points(const std::string& text, const std::string& origin, Points& points) {
  Json values;
  try {
    values = parse_json(text);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format("{}: {}", origin, error.what()));
  }
  for (const Json& value : values) points.add(point(value), value.dump(), "[x, y]");
}

void read_list(std::string_view text, Points& points) {
  while (true) {
    const std::size_t begin = text.find_first_not_of(kSeparators);
    if (begin == std::string_view::npos) return;
    const std::string_view word =
        text.substr(begin, text.find_first_of(kSeparators, begin) - begin);
    points.add(point(word), fmt::format("\"{}\"", word), "x:y");
    text.remove_prefix(begin + word.size());
  }
}

}  // namespace

IclSequences icl_prompt(IclTask task, const std::string& text, const std::string& origin) {
  Points read(origin);
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin != std::string::npos && text[begin] == '[') {
    read_json_points(text, origin, read);
  } else {
    read_list(text, read);
  }
  const std::vector<Point>& points = read.all();
  if (points.empty()) throw std::invalid_argument(fmt::format("{}: holds no number", origin));
  const bool with_y = points.front().y.has_value();
  if (task == IclTask::linear && !with_y) {
    throw std::invalid_argument(
        fmt::format("{}: icl-linear has no rule that gives y: write pairs x:y, such as "
                    "\"1:2.5,2:4.5\"",
                    origin));
  }
  const auto count = static_cast<std::int64_t>(points.size());
  IclSequences out;
  out.x = torch::empty({1, count});
  out.y = torch::empty({1, count});
  for (std::int64_t i = 0; i < count; ++i) {
    const Point& point = points[static_cast<std::size_t>(i)];
    out.x.mutable_data_ptr<float>()[i] = point.x;
    out.y.mutable_data_ptr<float>()[i] = point.y.value_or(0.0F);
  }
  if (!with_y) out.y = quantifier_answers(task, out.x);
  return out;
}

}  // namespace ssa
