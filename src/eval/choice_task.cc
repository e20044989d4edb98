#include "eval/choice_task.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <cmath>
#include <iterator>
#include <stdexcept>

#include "config/counted.h"
#include "config/toml.h"
#include "eval/standard_error.h"
#include "files/json.h"
#include "files/lines.h"
#include "files/utf8.h"
#include "text/words.h"

namespace ssa {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& message) { throw std::runtime_error(message); }

/// The value of the item's field as text; numbers, true and false as JSON writes them.
std::string text_of(const Json& value, const std::string& name) {
  if (value.is_null() || value.is_structured()) {
    throw std::invalid_argument(fmt::format(
        "field \"{}\" is {}, where a text, a number, true or false is needed", name, value.dump()));
  }
  return value.is_string() ? value.get<std::string>() : value.dump();
}

const Json& field_of(const Json& item, const std::string& name) {
  if (!item.is_object() || !item.contains(name)) {
    throw std::invalid_argument(fmt::format("field \"{}\" is missing", name));
  }
  return item.at(name);
}

std::string filled(const std::string& text, const Json& item) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t open = text.find('{', at);
    out += text.substr(at, open - at);
    if (open == text.npos) break;
    const std::size_t close = text.find('}', open);  // there is one: check_template
    const std::string name = text.substr(open + 1, close - open - 1);
    out += text_of(field_of(item, name), name);
    at = close + 1;
  }
  return out;
}

/// The names of the fields in a template, in order.
std::vector<std::string> fields_of(const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t open = text.find('{'); open != text.npos; open = text.find('{', open + 1)) {
    names.push_back(text.substr(open + 1, text.find('}', open) - open - 1));
  }
  return names;
}

/// filled(text, item), or where a field of the template is a list, one for each of its elements.
std::vector<std::string> filled_with_each(const std::string& text, Json item) {
  for (const std::string& name : fields_of(text)) {
    if (!field_of(item, name).is_array()) continue;
    std::vector<std::string> out;
    for (const Json& element : Json(item.at(name))) {
      item[name] = element;
      out.push_back(filled(text, item));
    }
    return out;
  }
  return {filled(text, item)};
}

/// The offset in bytes of the character of that number.
std::size_t offset_of(std::string_view text, std::size_t characters) {
  std::size_t at = 0;
  for (; characters > 0 && at < text.size(); --characters) {
    at += first_code_point(text.substr(at)).length;
  }
  return at;
}

/// The item with {before}, {after} and {rest}.
Json with_parts(Json item, const ChoiceTask& task) {
  if (task.split_field.empty()) return item;
  const std::string text = text_of(field_of(item, task.split_field), task.split_field);
  const std::string between = filled(task.split_at, item);
  std::size_t at = text.find(between);
  if (!task.split_place.empty()) {
    const Json& place = field_of(item, task.split_place);
    at = place.is_number_unsigned() ? offset_of(text, place.get<std::size_t>()) : text.npos;
    if (at != text.npos && text.compare(at, between.size(), between) != 0) at = text.npos;
  }
  if (at == text.npos) {
    throw std::invalid_argument(fmt::format(
        "field \"{}\" has no \"{}\" {}", task.split_field, between,
        task.split_place.empty() ? "in it"
                                 : fmt::format("where field \"{}\" says", task.split_place)));
  }
  item["before"] = text.substr(0, at);
  item["after"] = text.substr(at + between.size());
  const std::string_view rest = std::string_view(text).substr(at + between.size());
  item["rest"] = without_space_before(without_space_behind(rest));
  return item;
}

/// The name in "{name}", if that is all.
std::string only_field(const std::string& text) {
  const bool one = text.size() > 2 && text.front() == '{' && text.find('}') == text.size() - 1;
  return one ? text.substr(1, text.size() - 2) : "";
}

std::vector<std::string> choices_of(const ChoiceTask& task, const Json& item) {
  std::vector<std::string> out;
  const std::string list = task.choices.size() == 1 ? only_field(task.choices[0]) : "";
  if (!list.empty() && field_of(item, list).is_array()) {
    for (const Json& choice : item.at(list)) out.push_back(text_of(choice, list));
  } else {
    for (const std::string& choice : task.choices) out.push_back(filled(choice, item));
  }
  return out;
}

std::size_t number_of(const ChoiceTask& task, const Json& label, std::size_t choices) {
  std::size_t number = choices;
  if (!task.labels.empty()) {
    number = std::ranges::find(task.labels, text_of(label, task.label)) - task.labels.begin();
  } else if (label.is_number_unsigned()) {
    number = label.get<std::size_t>();
  }
  if (number >= choices) {
    throw std::invalid_argument(
        fmt::format("field \"{}\" is {}, which names none of the {} choices", task.label,
                    label.dump(), choices));
  }
  return number;
}

std::vector<std::size_t> right_of(const ChoiceTask& task, const Json& item, std::size_t choices) {
  if (task.greedy()) return {};
  const Json& label = field_of(item, task.label);
  std::vector<std::size_t> right;
  for (const Json& one : label.is_array() ? label : Json::array({label})) {
    right.push_back(number_of(task, one, choices));
  }
  if (right.empty()) {
    throw std::invalid_argument(fmt::format("field \"{}\" names no right choice", task.label));
  }
  return right;
}

ChoiceItem item_of(const ChoiceTask& task, std::string_view line) {
  Json json = parse_json(line);
  if (!json.is_object()) throw std::invalid_argument("is not a JSON object");
  json = with_parts(std::move(json), task);
  ChoiceItem item;
  for (const std::string& context : task.context) {
    std::ranges::move(filled_with_each(context, json), std::back_inserter(item.contexts));
  }
  item.texts = choices_of(task, json);
  if (item.texts.size() == 1 && !task.greedy()) {
    if (!task.metrics.empty() && item.contexts.size() > 1) {
      throw std::invalid_argument(
          "task.metrics compares choices by their words, but the contexts "
          "differ here, not the choices");
    }
    item.texts.resize(item.contexts.size(), item.texts[0]);
  }
  for (const std::string& text : item.texts) {
    if (text.empty()) throw std::invalid_argument("has an empty choice");
    json["choice"] = text;
    item.continuations.push_back(fmt::format(" {}", filled(task.continuation, json)));
  }
  if (item.contexts.size() == 1) item.contexts.resize(item.texts.size(), item.contexts[0]);
  if (item.contexts.size() != item.texts.size()) {
    throw std::invalid_argument(fmt::format("{}, but {}", counted(item.contexts.size(), "context"),
                                            counted(item.texts.size(), "choice")));
  }
  item.right = right_of(task, json, item.texts.size());
  return item;
}

std::size_t count_characters(const std::string& utf8) {
  return std::ranges::count_if(utf8, [](char c) { return (c & 0xC0) != 0x80; });
}

/// The first of the largest, as argmax says.
std::size_t largest(const std::vector<double>& values) {
  return std::ranges::max_element(values) - values.begin();
}

/// The metric's value of the choice that is predicted, against the right one that is nearest.
double best_match(const AnswerMetric& metric, const ChoiceItem& item, std::size_t predicted) {
  const std::vector<std::string> words = answer_words(item.texts[predicted]);
  double best = 0;
  for (const std::size_t right : item.right) {
    best = std::max(best, metric.of(words, answer_words(item.texts[right])));
  }
  return best;
}

void count(std::vector<std::int64_t>& counts, std::size_t which) {
  if (counts.size() <= which) counts.resize(which + 1);
  ++counts[which];
}

/// Braces come in pairs, each around the name of a field.
void check_template(const fs::path& file, const char* key, const std::string& text) {
  bool open = false;
  for (const char c : text) {
    if (c != '{' && c != '}') continue;
    if (open == (c == '{')) {
      open = true;
      break;
    }
    open = !open;
  }
  if (!open) return;
  fail(
      fmt::format("{}: task.{}: \"{}\" has a brace without its other one; {{name}} stands for a "
                  "field of the item",
                  file.string(), key, text));
}

void check_templates(const ChoiceTask& task, const fs::path& file) {
  for (const std::string& text : task.context) check_template(file, "context", text);
  for (const std::string& text : task.choices) check_template(file, "choices", text);
  check_template(file, "continuation", task.continuation);
  check_template(file, "split_at", task.split_at);
  if (task.continuation.find("{choice}") == task.continuation.npos) {
    fail(
        fmt::format("{}: task.continuation = \"{}\" has no {{choice}} in it: every choice would be "
                    "the same",
                    file.string(), task.continuation));
  }
}

void check_metrics(const ChoiceTask& task, const fs::path& file) {
  if (task.metrics.empty()) return;
  const auto refuse = [&](const std::string& reason) {
    fail(fmt::format("{}: task.metrics {}", file.string(), reason));
  };
  const auto twice = [](std::vector<std::string> names) {
    std::ranges::sort(names);
    const auto found = std::ranges::adjacent_find(names);
    return found == names.end() ? "" : *found;
  };
  if (task.greedy()) {
    refuse("compares the predicted choice with the right ones, but task.label is missing");
  }
  if (const std::string same = twice(task.choices); !same.empty()) {
    refuse(fmt::format("compares choices by their words, but task.choices has \"{}\" twice", same));
  }
  if (const std::string same = twice(task.metrics); !same.empty()) {
    refuse(fmt::format("has \"{}\" twice", same));
  }
}

}  // namespace

ChoiceTask read_choice_task(const fs::path& file) {
  ChoiceTask task;
  for (const Setting& setting : toml_settings(read_toml(file), file.string())) {
    if (setting.section != ChoiceTask::kSection || !apply(task, setting)) {
      fail(fmt::format("{}: unknown key {}.{}; there are task.{}", setting.origin, setting.section,
                       setting.key, fmt::join(field_names<ChoiceTask>(), ", task.")));
    }
  }
  const auto require = [&](bool there, const char* key) {
    if (!there) fail(fmt::format("{}: task.{} is missing", file.string(), key));
  };
  require(!task.name.empty(), "name");
  require(!task.file.empty(), "file");
  require(!task.context.empty(), "context");
  require(!task.choices.empty(), "choices");
  require(task.split_field.empty() == task.split_at.empty(),
          task.split_at.empty() ? "split_at" : "split_field");
  require(task.labels.empty() || !task.label.empty(), "label");
  if (task.greedy() && task.choices.size() != 1) {
    fail(fmt::format("{}: task.label is missing, so that task.choices must be one template",
                     file.string()));
  }
  check_templates(task, file);
  check_metrics(task, file);
  return task;
}

std::vector<ChoiceItem> read_choice_items(const ChoiceTask& task, const fs::path& file) {
  std::vector<ChoiceItem> items;
  for_each_line(file, [&](std::string_view line) { items.push_back(item_of(task, line)); });
  if (items.empty()) fail(fmt::format("{}: is empty", file.string()));
  return items;
}

LikelihoodRequest encode_pair(const Tokenizer& tokenizer, TokenId begin, std::string context,
                              std::string continuation) {
  const std::size_t end = without_space_behind(context).size();
  continuation = context.substr(end) + continuation;
  context.resize(end);
  if (context.empty()) return {{begin}, tokenizer.encode_ordinary(continuation)};
  LikelihoodRequest request{.context = tokenizer.encode_ordinary(context), .continuation = {}};
  const std::vector<TokenId> whole = tokenizer.encode_ordinary(context + continuation);
  const std::size_t cut = std::min(request.context.size(), whole.size());
  request.continuation.assign(whole.begin() + static_cast<std::ptrdiff_t>(cut), whole.end());
  if (request.context.empty()) request.context = {begin};
  return request;
}

double ChoiceResult::majority() const {
  if (labels.empty()) return 0;
  return static_cast<double>(std::ranges::max(labels)) / static_cast<double>(items);
}

bool ChoiceResult::constant() const {
  const auto used = [](std::int64_t number) { return number > 0; };
  return std::ranges::count_if(labels, used) > 1 && std::ranges::count_if(predictions, used) == 1;
}

ChoiceResult evaluate_choices(Model& model, const Tokenizer& tokenizer, TokenId begin,
                              std::int64_t max_positions, const ChoiceTask& task,
                              const std::vector<ChoiceItem>& items,
                              const std::function<void(std::int64_t, std::int64_t)>& report) {
  std::vector<LikelihoodRequest> requests;
  for (const ChoiceItem& item : items) {
    for (std::size_t i = 0; i < item.texts.size(); ++i) {
      requests.push_back(encode_pair(tokenizer, begin, item.contexts[i], item.continuations[i]));
    }
  }
  const std::vector<Likelihood> found = log_likelihoods(model, max_positions, requests, report);

  ChoiceResult result{.name = task.name, .greedy = task.greedy()};
  for (const AnswerMetric& metric : kAnswerMetrics) {
    if (std::ranges::find(task.metrics, metric.name) != task.metrics.end()) {
      result.answers.push_back({&metric});
    }
  }
  auto next = found.begin();
  for (const ChoiceItem& item : items) {
    std::vector<double> sums, by_characters, by_bytes;
    result.likelihoods.emplace_back(next, next + std::ssize(item.texts));
    for (const std::string& text : item.texts) {
      const Likelihood& one = *next++;
      if (result.greedy) result.right += one.greedy;
      sums.push_back(one.log_probability);
      by_characters.push_back(one.log_probability / static_cast<double>(count_characters(text)));
      by_bytes.push_back(one.log_probability / static_cast<double>(text.size()));
    }
    ++result.items;
    result.nats -= sums[0];
    result.squared_nats += sums[0] * sums[0];
    if (!result.greedy) {
      const auto is_right = [&](const std::vector<double>& values) {
        return std::ranges::find(item.right, largest(values)) != item.right.end();
      };
      result.chance += static_cast<double>(item.right.size()) / static_cast<double>(sums.size());
      count(result.labels, item.right[0]);
      count(result.predictions, largest(sums));
      result.right += is_right(sums);
      result.right_by_characters += is_right(by_characters);
      result.right_by_bytes += is_right(by_bytes);
      for (ChoiceResult::Answers& answers : result.answers) {
        const double value = best_match(*answers.metric, item, largest(sums));
        answers.sum += value;
        answers.squares += value * value;
      }
    }
  }
  result.chance /= static_cast<double>(result.items);
  return result;
}

Json to_json(const ChoiceResult& result) {
  const auto n = static_cast<double>(result.items);
  Json rows = Json::array();
  const auto add_mean = [&](std::string_view metric, double sum, double squares) {
    const double mean = sum / n;
    rows.push_back({{"text", result.name},
                    {"predictor", "model"},
                    {"metric", metric},
                    {"mean", 100 * mean},
                    {"standard_error", 100 * standard_error_of_mean(sum, squares, n)},
                    {"items", result.items}});
  };
  const auto add = [&](std::string_view metric, std::int64_t right) {
    add_mean(metric, static_cast<double>(right), static_cast<double>(right));
  };
  add("acc", result.right);
  if (result.greedy) {
    rows.push_back(
        {{"text", result.name},
         {"predictor", "model"},
         {"metric", "perplexity"},
         {"mean", std::exp(result.nats / n)},
         {"standard_error",
          std::exp(result.nats / n) * standard_error_of_mean(result.nats, result.squared_nats, n)},
         {"items", result.items}});
  } else {
    add("acc_norm", result.right_by_characters);
    add("acc_bytes", result.right_by_bytes);
    for (const auto& [metric, sum, squares] : result.answers) add_mean(metric->name, sum, squares);
    for (const auto& [predictor, share] :
         {std::pair("chance", result.chance), std::pair("majority", result.majority())}) {
      rows.push_back({{"text", result.name},
                      {"predictor", predictor},
                      {"metric", "acc"},
                      {"mean", 100 * share}});
    }
  }
  return rows;
}

}  // namespace ssa
