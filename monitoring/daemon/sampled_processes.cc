#include "monitoring/daemon/sampled_processes.h"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "common/runtime/production/processor_time.h"
#include "monitoring/sight/stack_sample.h"

namespace kintsugi::monitoring {
namespace {

/// Programs that users run: too many, and too short.
constexpr std::string_view kNotSampled = "client";

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes)
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

bool is_loopback(const std::string& host) {
  return host.starts_with("127.") || host == "::1" || host == "localhost";
}

bool is_on(const proto::SightReport& report, const ThisMachine& here) {
  return !here.id.empty() && report.system().machine() == here.id;
}

}  // namespace

std::optional<runtime::Endpoint> page_of(const proto::SightReport& report, const ThisMachine& here) {
  auto page = runtime::Endpoint::parse(report.http_address());
  if (!page || page->port == 0) return {};
  // Who listens everywhere is reached where its RPC server is.
  if (page->is_wildcard()) {
    const auto address = runtime::Endpoint::parse(report.address());
    page->host = address && !address->is_wildcard() ? address->host : "127.0.0.1";
  }
  if (is_loopback(page->host) && !is_on(report, here)) return {};
  return *page;
}

ThisMachine this_machine() {
  return {.id = runtime::ProcessorClock().machine(), .pid_namespace = sight::pid_namespace()};
}

std::vector<recording::Target> sampled_processes(const model::Snapshot& snapshot, const ThisMachine& here) {
  struct Chosen {
    TimePoint started;
    recording::Target target;
  };
  std::map<std::string, Chosen> chosen;
  for (const auto& view : snapshot.processes) {
    const proto::SightReport& report = view->last();
    // Who has only just begun may not say yet who it is; who has said that it ends may have given its pid to another one.
    if (report.kind().empty() || report.kind() == kNotSampled || report.last()) continue;
    const bool is_local = is_on(report, here) && report.pid() != 0 && here.pid_namespace != 0 &&
                          report.pid_namespace() == here.pid_namespace;
    recording::Target target{.name = view->display(),
                             .process = view->process(),
                             .build_id = hex(report.build_id()),
                             .pid = report.pid(),
                             .is_local = is_local,
                             .page = page_of(report, here)};
    // One that cannot be sampled hides nobody: mounts of several machines may have one name.
    if (!target.is_local && !target.page) continue;
    const auto [of_name, first] =
        chosen.try_emplace(target.name, Chosen{.started = view->started(), .target = target});
    if (!first && view->started() > of_name->second.started)
      of_name->second = {.started = view->started(), .target = std::move(target)};
  }
  std::vector<recording::Target> targets;
  for (auto& [name, one] : chosen)
    targets.push_back(std::move(one.target));
  return targets;
}

}  // namespace kintsugi::monitoring
