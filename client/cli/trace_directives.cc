#include "client/cli/trace_directives.h"

#include <map>

#include "client/cli/local_daemon.h"
#include "client/cli/printable.h"

namespace kintsugi::cli {

Result<flow::Directives> read_directives(const std::string& path) {
  KINTSUGI_ASSIGN(const std::string text, read_file(path));
  Result<flow::Directives> directives = flow::parse_directives(text);
  if (!directives) return directives.error().with_context(shown_name(path));
  return directives;
}

Result<tracing::SeparationSettings> separation_settings(const std::string& path, bool rules_only) {
  if (!path.empty() && rules_only)
    return Status{Code::kInvalidArgument, "--rules-only uses no directives, so --directives says nothing"};
  tracing::SeparationSettings settings;
  settings.rules_only = rules_only;
  if (rules_only) settings.directives = {};
  if (!path.empty()) {
    KINTSUGI_ASSIGN(settings.directives, read_directives(path));
  }
  return settings;
}

void record_values(const flow::Directives& directives, proto::TraceRequest& request) {
  std::map<std::string, uint32_t> places;
  for (const flow::Directive& each : directives.directives) {
    const uint32_t place =
        each.argument == flow::kReturnValue ? tracing::kReturnedPlace : static_cast<uint32_t>(each.argument);
    places[each.function] |= 1u << (place - 1);
  }
  for (const auto& [function, of_function] : places) {
    proto::RecordedValues& values = *request.add_recorded();
    values.set_function(function);
    values.set_places(of_function);
  }
}

}  // namespace kintsugi::cli
