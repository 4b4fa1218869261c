#include "tracing/events/directive_sites.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "common/base/assert.h"
#include "common/config/nearest.h"

namespace kintsugi::tracing {
namespace {

/// For so many names that nobody knows, a similar one is looked for.
constexpr size_t kMostHints = 20;

/// The name of a recorded program that was meant: one that ends so, or else one that is a few letters away. Empty: none.
std::string_view meant(std::string_view name, std::span<const std::string_view> known) {
  for (const std::string_view each : known)
    if (each.size() > name.size() + 2 && each.ends_with(name) &&
        each.substr(0, each.size() - name.size()).ends_with("::"))
      return each;
  return config::nearest(name, known);
}

std::string value_of(const flow::Directive& directive) {
  return directive.argument == flow::kReturnValue ? "returned value"
                                                  : fmt::format("arg{}", directive.argument);
}

/// Says that a name is nobody's.
class Unknown {
 public:
  explicit Unknown(const std::vector<std::string>& functions) : names_(functions.begin(), functions.end()) {
    known_.assign(functions.begin(), functions.end());
  }
  void check(const std::string& name, size_t line, std::vector<std::string>& remarks) {
    if (names_.contains(name)) return;
    const std::string_view instead = hints_++ < kMostHints ? meant(name, known_) : std::string_view();
    remarks.push_back(fmt::format("line {}: no recorded program has a function {} with room for tracing{}",
                                  line, name,
                                  instead.empty() ? "" : fmt::format(" (did you mean {}?)", instead)));
  }

 private:
  const std::set<std::string_view> names_;
  std::vector<std::string_view> known_;
  size_t hints_ = 0;
};

}  // namespace

flow::Directives shipped_directives() {
  Result<flow::Directives> directives = flow::parse_directives(kShippedDirectives);
  KINTSUGI_ASSERT(directives);
  return std::move(*directives);
}

DirectiveSites::DirectiveSites(flow::Directives directives)
    : directives_(std::move(directives)), seen_(directives_.directives.size()) {
  for (uint32_t i = 0; i < directives_.directives.size(); ++i)
    by_function_[directives_.directives[i].function].push_back(i);
}

std::span<const uint32_t> DirectiveSites::of(const std::string& function) const {
  const auto found = by_function_.find(function);
  return found == by_function_.end() ? std::span<const uint32_t>() : found->second;
}

void DirectiveSites::apply(std::span<const uint32_t> places, const Step& step, uint32_t lane,
                           flow::FunctionId id, EventWriter& writer) {
  const flow::Point now = step.record.kind == Kind::kEntry ? flow::Point::kEntry : flow::Point::kExit;
  for (const uint32_t place : places) {
    const flow::Directive& directive = directives_.directives[place];
    if (directive.point != now) continue;
    const size_t wanted =
        directive.argument == flow::kReturnValue ? kReturnedPlace : static_cast<size_t>(directive.argument);
    const bool has_value = (step.recorded >> (wanted - 1) & 1) != 0;
    (has_value ? seen_[place].with_value : seen_[place].without_value) = true;
    // Without its value it would join whatever else has none.
    if (has_value) writer.join_by_directive(lane, step.unix_ns, directive, step.arguments[wanted - 1], id);
  }
}

std::vector<std::string> DirectiveSites::remarks(const std::vector<std::string>& functions) const {
  std::vector<std::string> remarks;
  Unknown unknown(functions);
  for (size_t i = 0; i < directives_.directives.size(); ++i) {
    const flow::Directive& directive = directives_.directives[i];
    unknown.check(directive.function, directive.line, remarks);
    if (seen_[i].without_value && !seen_[i].with_value)
      remarks.push_back(fmt::format(
          "line {}: the {} of {} was not recorded: kintsugi trace attach --directives has it recorded",
          directive.line, value_of(directive), directive.function));
  }
  for (const flow::Idle& idle : directives_.idle)
    unknown.check(idle.function, idle.line, remarks);
  for (const flow::Idle& others : directives_.others)
    unknown.check(others.function, others.line, remarks);
  return remarks;
}

}  // namespace kintsugi::tracing
