#include "client/cli/daemon_pages.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include <nlohmann/json.hpp>

#include "common/http/kept_connection.h"

namespace kintsugi::cli {
namespace {

constexpr std::string_view kMetrics = "/metrics";
/// Other pages of a daemon; no daemon has all of them.
constexpr std::string_view kOthers[] = {"/debug/settings", "/healthz",     "/debug/live", "/debug/paths",
                                        "/debug/repairs",  "/debug/cache", "/debug/link", "/api/v1/servers"};

asio::awaitable<Result<std::string>> get(const runtime::Runtime& runtime, http::KeptConnection& connection,
                                         std::string_view path) {
  co_return co_await connection.get(std::string(path), runtime.clock.now() + kAnswerLimit);
}

/// How far its clock is ahead of this one, taken in the middle of the question.
asio::awaitable<void> read_clock(const runtime::Runtime& runtime, http::KeptConnection& connection,
                                 DaemonPages& daemon) {
  const WallTime asked = runtime.clock.wall_now();
  const auto text = co_await get(runtime, connection, "/debug/clock");
  const WallTime middle = asked + (runtime.clock.wall_now() - asked) / 2;
  int64_t theirs = 0;
  if (!text || std::from_chars(text->data(), text->data() + text->size(), theirs).ec != std::errc())
    co_return;
  daemon.clock_ahead = to_seconds(Duration(theirs) - middle.time_since_epoch());
}

asio::awaitable<void> read_all(const runtime::Runtime& runtime, runtime::Endpoint at, DaemonPages& daemon) {
  http::KeptConnection connection(runtime, std::move(at));
  auto metrics = co_await get(runtime, connection, kMetrics);
  if (!metrics) {
    daemon.reached = metrics.error();
    co_return;
  }
  daemon.pages.emplace(kMetrics, std::move(*metrics));
  co_await read_clock(runtime, connection, daemon);
  for (const std::string_view path : kOthers)
    if (auto page = co_await get(runtime, connection, path)) daemon.pages.emplace(path, std::move(*page));
}

/// `line` from after '{' on: the labels, and the place of what follows '}'. npos: it is no line of a page.
size_t read_labels(std::string_view line, size_t at, Sample& sample) {
  while (at < line.size() && line[at] != '}') {
    const size_t equals = line.find("=\"", at);
    if (equals == std::string_view::npos) return std::string_view::npos;
    const std::string name(line.substr(at, equals - at));
    std::string value;
    for (at = equals + 2; at < line.size() && line[at] != '"'; ++at) {
      if (line[at] == '\\' && at + 1 < line.size()) ++at;
      value += line[at];
    }
    sample.labels.emplace(name, std::move(value));
    at += at + 1 < line.size() && line[at + 1] == ',' ? 2 : 1;
  }
  return at < line.size() ? at + 1 : std::string_view::npos;
}

}  // namespace

Result<std::vector<DaemonPages>> find_daemons(runtime::ProductionRuntime& runtime,
                                              const runtime::Endpoint& metaserver) {
  http::KeptConnection connection(runtime.runtime(), metaserver);
  const auto page = runtime::run_on(runtime, get(runtime.runtime(), connection, "/sd"));
  if (!page) return page.error();
  const auto all = nlohmann::json::parse(*page, nullptr, false);
  std::vector<DaemonPages> found;
  try {
    for (const auto& each : all)
      found.push_back({.daemon = each.at("labels").at("daemon").get<std::string>(),
                       .instance = each.at("labels").at("instance").get<std::string>(),
                       .address = each.at("targets").at(0).get<std::string>()});
  } catch (const nlohmann::json::exception&) {
    return Status{Code::kCorrupt, fmt::format("{}/sd is no list of daemons", metaserver.to_string())};
  }
  return found;
}

void read_pages(runtime::ProductionRuntime& runtime, DaemonPages& daemon) {
  auto at = runtime::Endpoint::parse(daemon.address);
  if (!at) {
    daemon.reached = at.error();
    return;
  }
  runtime::run_on(runtime, read_all(runtime.runtime(), std::move(*at), daemon));
}

std::vector<Sample> samples(std::string_view page, const std::vector<std::string_view>& names) {
  std::vector<Sample> found;
  for (size_t begin = 0; begin < page.size();) {
    const size_t end = std::min(page.find('\n', begin), page.size());
    const std::string_view line = page.substr(begin, end - begin);
    begin = end + 1;
    const size_t after_name = line.find_first_of("{ ");
    if (after_name == std::string_view::npos || !std::ranges::count(names, line.substr(0, after_name)))
      continue;
    Sample sample{.name = std::string(line.substr(0, after_name)), .labels = {}};
    const size_t at = line[after_name] == '{' ? read_labels(line, after_name + 1, sample) : after_name;
    if (at == std::string_view::npos) continue;
    sample.value = std::strtod(std::string(line.substr(at)).c_str(), nullptr);
    found.push_back(std::move(sample));
  }
  return found;
}

}  // namespace kintsugi::cli
