#include "tracing/flow/directives.h"

#include <array>
#include <unordered_set>

#include <fmt/format.h>

#include "common/base/quote.h"
#include "common/config/nearest.h"

namespace kintsugi::flow {
namespace {

constexpr std::string_view kSpace = " \t\r";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

/// Takes the last word off `text`; names of functions have spaces, what follows them has not.
std::string_view take_last(std::string_view& text) {
  const size_t space = text.find_last_of(kSpace);
  const std::string_view word = space == std::string_view::npos ? text : text.substr(space + 1);
  text = space == std::string_view::npos ? std::string_view() : trimmed(text.substr(0, space));
  return word;
}

std::string_view take_first(std::string_view& text) {
  const size_t space = text.find_first_of(kSpace);
  const std::string_view word = text.substr(0, space);
  text = space == std::string_view::npos ? std::string_view() : trimmed(text.substr(space));
  return word;
}

Status wrong(std::string_view what) {
  return Status(Code::kInvalidArgument, std::string(what));
}

/// " (did you mean "entry"?)", or nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> known) {
  const std::string_view meant = config::nearest(word, known);
  return meant.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", meant);
}

uint32_t attribute_named(std::vector<Attribute>& attributes, std::string_view name) {
  for (uint32_t i = 0; i < attributes.size(); ++i)
    if (attributes[i].name == name) return i;
  attributes.push_back({.name = std::string(name)});
  return static_cast<uint32_t>(attributes.size() - 1);
}

Status parse_value(std::string_view word, Directive& directive) {
  if (word == "ret") {
    if (directive.point != Point::kExit) return wrong("ret is known at the exit only");
    directive.argument = kReturnValue;
    return {};
  }
  if (word.size() != 4 || !word.starts_with("arg") || word[3] < '1' || word[3] > '6')
    return wrong(fmt::format("{} is no value: arg1 to arg6, or ret", quoted(word, 40)));
  if (directive.point != Point::kEntry) return wrong("arguments are known at the entry only");
  directive.argument = word[3] - '0';
  return {};
}

Status parse_point(std::string_view text, Directive& directive) {
  const size_t colon = text.rfind(':');
  const std::string_view point =
      colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  if (point != "entry" && point != "exit")
    return wrong(fmt::format("{} names no FUNCTION:entry or FUNCTION:exit{}", quoted(text, 80),
                             did_you_mean(point, std::array<std::string_view, 2>{"entry", "exit"})));
  directive.point = point == "entry" ? Point::kEntry : Point::kExit;
  directive.function = std::string(text.substr(0, colon));
  return directive.function.empty() ? wrong("the function has no name") : Status();
}

Status parse_line(std::string_view line, size_t number, Directives& out) {
  const std::string_view scope = take_first(line);
  const std::pair<std::string_view, std::vector<Idle>*> of_functions[] = {
      {"idle", &out.idle}, {"others", &out.others}, {"aside", &out.aside}};
  for (const auto& [word, functions] : of_functions) {
    if (scope != word) continue;
    if (line.empty()) return wrong(fmt::format("{} takes the name of a function", word));
    functions->push_back({std::string(line), number});
    return {};
  }
  Directive directive{.line = number};
  if (scope == "begin")
    directive.scope = Kind::kBegin;
  else if (scope == "use")
    directive.scope = Kind::kUse;
  else if (scope == "end")
    directive.scope = Kind::kEnd;
  else
    return wrong(fmt::format("{} is neither begin, use, end, idle, others nor aside{}", quoted(scope, 40),
                             did_you_mean(scope, std::array<std::string_view, 6>{
                                                     "begin", "use", "end", "idle", "others", "aside"})));
  std::string_view attribute = take_last(line);
  bool shared = false;
  std::string_view as = take_last(line);
  if (attribute == "shared" && as != "as") {
    shared = true;
    attribute = as;
    as = take_last(line);
  }
  if (as != "as" || attribute.empty()) return wrong("it does not end in: as ATTRIBUTE");
  const std::string_view value = take_last(line);
  KINTSUGI_TRY(parse_point(line, directive));
  KINTSUGI_TRY(parse_value(value, directive));
  directive.attribute = attribute_named(out.attributes, attribute);
  out.attributes[directive.attribute].shared |= shared;
  out.directives.push_back(std::move(directive));
  return {};
}

}  // namespace

Result<Directives> parse_directives(std::string_view text) {
  if (text.size() > kMostBytesOfDirectives)
    return Status(Code::kLimitExceeded, "the directives are too long");
  Directives directives;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view all = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    const std::string_view line = trimmed(all.substr(0, all.find('#')));
    if (line.empty()) continue;
    if (directives.directives.size() + directives.idle.size() + directives.others.size() +
            directives.aside.size() ==
        kMostDirectives)
      return Status(Code::kLimitExceeded,
                    fmt::format("line {}: more than {} directives", number, kMostDirectives));
    if (Status status = parse_line(line, number, directives); !status.ok())
      return status.with_context(fmt::format("line {}", number));
  }
  return directives;
}

std::vector<FunctionId> idle_functions(const std::vector<std::string>& functions,
                                       std::span<const Idle> idle) {
  std::unordered_set<std::string_view> wanted;
  for (const Idle& each : idle)
    wanted.insert(each.function);
  std::vector<FunctionId> ids;
  for (FunctionId id = 0; id < functions.size(); ++id)
    if (wanted.contains(functions[id])) ids.push_back(id);
  return ids;
}

}  // namespace kintsugi::flow
