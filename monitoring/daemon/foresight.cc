#include "monitoring/daemon/foresight.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "common/base/signals_blocked.h"
#include "common/log/log.h"
#include "monitoring/metrics/orion/healthy_windows.h"
#include "monitoring/metrics/trace/files.h"
#include "monitoring/metrics/trace/selection.h"

namespace kintsugi::monitoring {
namespace {

using metric_trace::Series;
using metric_trace::Trace;

constexpr double kDay = 86400, kWeek = 7 * kDay;
constexpr int64_t kCarriedNs = 60'000'000'000;
/// Room on disks goes over days: its stretches are so much longer than those of what a process opens and takes.
constexpr double kScaleOfRoom = 12;
constexpr const char* kRoom = "free_bytes";
constexpr const char* kRoomOfServer = "kintsugi_chunkserver_free_bytes";
constexpr const char* kCluster = "cluster";
/// The room of a server that runs out no sooner than this share of the cluster's time left is that of the cluster.
constexpr double kSooner = 0.8;

bool is_room(const std::string& name) {
  return name.find(kRoom) != std::string::npos;
}

/// The part's rows from `since_ns` on, of those metrics alone that may run out or show the load, and regions if they are
/// asked for.
Trace judged_columns(const Trace& part, int64_t since_ns, bool regions) {
  metric_trace::Selection selection{.source = {}, .metrics = {}, .regions = regions};
  for (const metric_trace::Metric& metric : part.header.metrics)
    if (std::isfinite(metric.limit) || is_room(metric.name) || orion::is_load(metric.name))
      selection.metrics.push_back(metric.name);
  return selection.metrics.empty() ? Trace{} : metric_trace::select(part, selection, since_ns);
}

/// The last rows of the trace, as many as there should be in the time of so many.
Trace latest(const std::string& directory, double rows, bool regions, const std::stop_token& stop) {
  const auto header = metric_trace::latest_header(directory);
  if (!header) return {};
  const double seconds = rows * std::chrono::duration<double>(header->period).count();
  const auto now = std::chrono::system_clock::now().time_since_epoch();  // NOLINT: the clock of the rows
  const int64_t since = std::chrono::nanoseconds(now).count() - static_cast<int64_t>(1.1 * seconds * 1e9);
  std::vector<Trace> parts;
  const auto use = [&](const Trace& part) {
    // Rows of another interval do not fit to these.
    if (part.header.period != header->period) return;
    if (Trace judged = judged_columns(part, since, regions); !judged.rows.empty())
      parts.push_back(std::move(judged));
  };
  const Status status = metric_trace::for_each_part(directory, since, use, stop);
  return status.ok() && !parts.empty() ? metric_trace::joined(std::move(parts)) : Trace{};
}

template <class Judge>
std::vector<Foretold> foretold_by(const Trace& trace, const Judge& judge) {
  std::vector<Foretold> out;
  for (uint32_t i = 0; i < trace.header.sources.size(); ++i) {
    Series series = metric_trace::series_of(trace, i);
    for (augury::RunsOut& each : judge(series))
      out.push_back({.server = series.source, .t_ns = series.t_ns.back(), .what = std::move(each)});
  }
  std::ranges::stable_sort(out, {}, [](const Foretold& each) { return each.what.exhaustion.seconds_left; });
  return out;
}

/// Returns the disks of a series that will be full within a week.
std::vector<augury::RunsOut> room_of(Series& series) {
  // A disk is the same whichever process uses it.
  if (series.rows() > 0) series.segments = {{.begin = 0, .end = series.rows(), .build_id = {}}};
  for (size_t column = 0; column < series.names.size(); ++column)
    series.limits[column] = is_room(series.names[column]) ? 0 : metric_trace::kMissing;
  return augury::running_out(series, kWeek, kScaleOfRoom);
}

/// The free bytes of all chunkservers together, as the only metric of one source; no row when there is but one server. A
/// server that did not answer counts with what it had last for a minute, and with nothing after that.
Trace room_of_cluster(const Trace& trace) {
  Trace out;
  out.header.period = trace.header.period;
  out.header.sources = {{.name = kCluster, .build_id = {}}};
  out.header.metrics = {{.name = kRoomOfServer}};
  struct Server {
    size_t column;
    double last = 0;
    int64_t known_ns = 0;
  };
  std::vector<Server> servers;
  for (size_t column = 0; column < trace.header.metrics.size(); ++column)
    if (trace.header.metrics[column].name == kRoomOfServer) servers.push_back({.column = column});
  if (servers.size() < 2) return out;
  for (const metric_trace::Row& row : trace.rows) {
    double sum = 0;
    for (Server& server : servers) {
      const double now = row.values[server.column];
      if (std::isfinite(now)) server = {.column = server.column, .last = now, .known_ns = row.t_ns};
      if (std::abs(row.t_ns - server.known_ns) <= kCarriedNs) sum += server.last;
    }
    out.rows.push_back({.t_ns = row.t_ns, .values = {sum}, .activity = {}, .restarts = {}});
  }
  return out;
}

}  // namespace

std::vector<Foretold> resources_that_run_out(const Trace& trace) {
  return foretold_by(trace, [](Series& series) {
    // Caches fill for as long as half an hour: memory is looked at over hours.
    for (size_t column = 0; column < series.names.size(); ++column)
      if (series.names[column] == metric_trace::kMemoryColumn) series.limits[column] = metric_trace::kMissing;
    return augury::running_out(series, kDay);
  });
}

std::vector<Foretold> room_that_runs_out(const Trace& trace) {
  std::vector<Foretold> found = foretold_by(trace, room_of);
  std::vector<Foretold> together = foretold_by(room_of_cluster(trace), room_of);
  if (together.empty()) return found;
  const double end = together.front().what.exhaustion.seconds_left;
  std::erase_if(found, [end](const Foretold& each) {
    return each.what.metric == kRoomOfServer && each.what.exhaustion.seconds_left >= kSooner * end;
  });
  found.insert(found.begin(), std::make_move_iterator(together.begin()),
               std::make_move_iterator(together.end()));
  return found;
}

std::vector<Foretold> memory_that_runs_out(const Trace& trace) {
  return foretold_by(trace, [](Series& series) {
    for (size_t column = 0; column < series.names.size(); ++column)
      if (series.names[column] != metric_trace::kMemoryColumn) series.limits[column] = metric_trace::kMissing;
    return augury::running_out(series, kWeek, kScaleOfRoom);
  });
}

std::vector<Foretold> look_for_resources(const std::string& directory, const std::stop_token& stop) {
  return resources_that_run_out(latest(directory, augury::kLongRows, /*regions=*/true, stop));
}

std::vector<Foretold> look_for_room(const std::string& directory, const std::stop_token& stop) {
  // Six hours of rows are read: their regions would take more memory than the few metrics that are judged.
  const Trace trace = latest(directory, augury::kLongRows * kScaleOfRoom, /*regions=*/false, stop);
  std::vector<Foretold> found = room_that_runs_out(trace);
  std::ranges::move(memory_that_runs_out(trace), std::back_inserter(found));
  return found;
}

/// Lives as long as the thread, which may outlive the Foresight while a disk hangs.
struct Foresight::Shared {
  Shared(std::string given, Looks to_take) : directory(std::move(given)), looks(std::move(to_take)) {}

  void run();
  void look(std::vector<Foretold>& found);

  const std::string directory;
  const Looks looks;
  std::stop_source stopping;
  mutable std::mutex mutex;  ///< guards what follows
  std::condition_variable changed;
  std::vector<Foretold> standing;
  bool ended = false;

  // The thread's only.
  std::vector<Foretold> room;
  Duration until_room{};
};

Foresight::Foresight(std::string directory, Looks looks)
    : shared_(std::make_shared<Shared>(std::move(directory), std::move(looks))) {}

Foresight::~Foresight() {
  stop();
}

Status Foresight::start() {
  const SignalsBlocked blocked;
  try {
    thread_ = std::thread([shared = shared_] { shared->run(); });
  } catch (const std::system_error& failure) {
    return {Code::kUnavailable, failure.what()};
  }
  return {};
}

void Foresight::stop() {
  shared_->stopping.request_stop();
  if (!thread_.joinable()) return;
  std::unique_lock lock(shared_->mutex);
  shared_->changed.notify_all();
  const bool ended = shared_->changed.wait_for(lock, kStopLimit, [this] { return shared_->ended; });
  lock.unlock();
  if (ended) return thread_.join();
  log::warning("stopped without waiting any longer for what looks for resources that run out");
  thread_.detach();
}

std::vector<Foretold> Foresight::standing() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->standing;
}

void Foresight::Shared::look(std::vector<Foretold>& found) {
  const std::stop_token stop = stopping.get_token();
  if (until_room <= Duration{}) {
    room.clear();
    room = looks.room(directory, stop);
    until_room = kRoomEvery;
  }
  until_room -= looks.every;
  found = looks.resources(directory, stop);
  found.insert(found.end(), room.begin(), room.end());
}

void Foresight::Shared::run() {
  bool failed = false;
  while (!stopping.stop_requested()) {
    std::vector<Foretold> found;
    try {
      look(found);
      failed = false;
    } catch (const std::exception& failure) {
      found.clear();
      if (!std::exchange(failed, true))
        log::warning(
            "nothing is foretold for now: {}; that is tried again every minute, and nothing else stops",
            failure.what());
    }
    std::unique_lock lock(mutex);
    standing = std::move(found);
    changed.wait_for(lock, looks.every, [this] { return stopping.stop_requested(); });
  }
  const std::lock_guard lock(mutex);
  ended = true;
  changed.notify_all();
}

std::vector<proto::Verdict> ForesightDetector::examine(const model::Snapshot& snapshot) {
  std::vector<proto::Verdict> out;
  for (const Foretold& each : foresight_.standing()) {
    proto::Verdict verdict;
    verdict.set_kind(proto::Verdict::RUNS_OUT);
    verdict.set_server(each.server);
    const auto known = std::ranges::find(snapshot.servers, each.server, &model::ServerLife::name);
    if (known != snapshot.servers.end()) verdict.set_server_id(known->server_id);
    verdict.set_region(each.what.metric);
    const metric_trace::Exhaustion& end = each.what.exhaustion;
    proto::Forecast& forecast = *verdict.mutable_forecast();
    forecast.set_now(each.what.now);
    forecast.set_limit(each.what.limit);
    forecast.set_rate_per_s(end.rate);
    const double age = std::max(0.0, static_cast<double>(snapshot.wall_ns - each.t_ns) * 1e-9);
    forecast.set_seconds_left(std::max(0.0, end.seconds_left - age));
    forecast.set_soonest_s(std::max(0.0, end.soonest - age));
    if (std::isfinite(end.latest)) forecast.set_latest_s(std::max(0.001, end.latest - age));
    verdict.set_confidence(proto::Verdict::LIKELY);
    verdict.add_why(
        fmt::format("without what its load explains, it went from {:.6g} towards {:.6g} by {:.3g} a second",
                    each.what.now, each.what.limit, std::abs(end.rate)));
    for (const orion::DearerRegion& region : each.what.grows_with) {
      proto::ChainLink& place = *verdict.add_slice();
      place.set_process(each.server);
      place.set_region(region.name);
      verdict.add_why(orion::describe(region));
    }
    out.push_back(std::move(verdict));
  }
  return out;
}

}  // namespace kintsugi::monitoring
