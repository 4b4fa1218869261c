/// Directives of a file where the functions that they name run, and what of them cannot be followed.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tracing/events/event_writer.h"
#include "tracing/events/steps.h"
#include "tracing/flow/directives.h"

namespace kintsugi::tracing {

/// The text of tracing/events/kintsugi.directives: what is known of our daemons.
extern const std::string_view kShippedDirectives;
flow::Directives shipped_directives();

class DirectiveSites {
 public:
  explicit DirectiveSites(flow::Directives directives);

  const flow::Directives& directives() const { return directives_; }
  /// Places in directives() of those that name this function.
  std::span<const uint32_t> of(const std::string& function) const;
  /// Writes what those of `places` say that concern this step, which is in `lane`. `id`: the function.
  void apply(std::span<const uint32_t> places, const Step& step, uint32_t lane, flow::FunctionId id,
             EventWriter& writer);
  /// A sentence for each directive that could not be followed, with its line. `functions`: the names that all recorded programs have.
  std::vector<std::string> remarks(const std::vector<std::string>& functions) const;

 private:
  /// What was seen of a directive.
  struct Seen {
    bool with_value = false, without_value = false;
  };

  flow::Directives directives_;
  std::map<std::string, std::vector<uint32_t>> by_function_;
  std::vector<Seen> seen_;  ///< by directive
};

}  // namespace kintsugi::tracing
