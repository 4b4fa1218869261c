#include "monitoring/recording/recording.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <set>
#include <utility>

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "common/log/log.h"
#include "common/runtime/task_group.h"

namespace kintsugi::recording {

namespace {

/// Which process each source was in the last row on disk, by name. What ended long ago is no past of anybody, so only the
/// last file is read.
std::map<std::string, uint64_t> last_processes(const std::string& directory) {
  std::map<std::string, uint64_t> out;
  const auto note = [&](const metric_trace::Trace& part) {
    for (const metric_trace::Source& source : part.header.sources)
      out[source.name] = source.process;
    for (const metric_trace::Row& row : part.rows)
      for (const metric_trace::Restart& restart : row.restarts)
        out[part.header.sources[restart.source].name] = restart.process;
  };
  (void)metric_trace::for_each_part(  // nothing is there at the first start
      directory, std::numeric_limits<int64_t>::max(), note);
  return out;
}

}  // namespace

Recording::Recording(const runtime::Runtime& runtime, RecordingOptions options)
    : runtime_(runtime), options_(std::move(options)), processes_(last_processes(options_.keep.directory)) {}

void Recording::set_targets(const std::vector<Target>& targets) {
  std::set<std::string_view> names;
  for (const Target& target : targets) {
    if (target.name.empty() || !names.insert(target.name).second) continue;
    auto& daemon = daemons_[target.name];
    if (daemon) {
      daemon->change(target);
    } else {
      daemon = std::make_unique<SampledDaemon>(runtime_, target);
      daemons_changed_ = true;
    }
  }
  // Columns of a daemon that is gone stay until columns are made anew for another reason.
  std::erase_if(daemons_, [&](const auto& daemon) { return !names.contains(daemon.first); });
}

asio::awaitable<void> Recording::sample() {
  const TimePoint deadline = runtime_.clock.now() + std::min<Duration>(kPageLimit, options_.period / 2);
  runtime::TaskGroup pages(runtime_);
  for (const auto& [name, daemon] : daemons_)
    pages.spawn(daemon->sample_page(deadline));
  // The pages are asked for first, and /proc is read while they are on their way.
  co_await asio::post(runtime_.executor, asio::use_awaitable);
  std::exception_ptr failure;
  try {
    for (const auto& [name, daemon] : daemons_)
      daemon->sample_process();
  } catch (...) {
    failure = std::current_exception();  // the pages still have to be waited for
  }
  co_await pages.join();
  if (failure) std::rethrow_exception(failure);
}

asio::awaitable<void> Recording::tick() {
  if (daemons_.empty()) co_return;
  if (runtime_.clock.now() < again_at_) {
    miss();
    co_return;
  }
  const int64_t t_ns = runtime_.clock.wall_now().time_since_epoch().count();
  co_await sample();
  metric_trace::Row row{.t_ns = t_ns, .values = {}, .activity = {}, .restarts = {}};
  const Status kept = keep(std::move(row));
  if (!kept.ok()) {
    stop(kept);
    co_return;
  }
  if (!files_) co_return;  // nobody has answered yet
  ++state_.rows;
  state_.bytes = files_->bytes();
  if (!std::exchange(state_.stopped, {}).empty()) log::info("metrics are recorded again");
}

bool Recording::wants_columns() const {
  if (header_.metrics.empty() || daemons_changed_) return true;
  return runtime_.clock.now() - columns_at_ >= kColumnsEvery &&
         std::ranges::any_of(daemons_, [](const auto& daemon) { return daemon.second->has_more(); });
}

Status Recording::place_columns() {
  metric_trace::Header header;
  header.period = options_.period;
  header.host = options_.host;
  for (const auto& [name, daemon] : daemons_)
    daemon->describe(header);
  if (header.metrics.empty()) return {};
  header_ = header;
  columns_at_ = runtime_.clock.now();
  daemons_changed_ = false;
  state_.metrics = header_.metrics.size();
  return files_ ? files_->change(std::move(header)) : Status();
}

Status Recording::keep(metric_trace::Row row) {
  if (wants_columns()) KINTSUGI_TRY(place_columns());
  if (header_.metrics.empty()) return {};
  if (!files_) {
    KINTSUGI_ASSIGN(files_, metric_trace::TraceFiles::open(options_.keep, header_));
  }
  row.values.assign(header_.metrics.size(), metric_trace::kMissing);
  for (const auto& [name, daemon] : daemons_)
    daemon->fill(row);
  row.restarts = restarts();
  KINTSUGI_TRY(files_->append(row));
  for (const metric_trace::Restart& restart : row.restarts)
    processes_[header_.sources[restart.source].name] = restart.process;
  return {};
}

std::vector<metric_trace::Restart> Recording::restarts() const {
  std::vector<metric_trace::Restart> out;
  for (uint32_t i = 0; i < header_.sources.size(); ++i) {
    const auto daemon = daemons_.find(header_.sources[i].name);
    if (daemon == daemons_.end()) continue;
    const Target& now = daemon->second->target();
    const auto before = processes_.find(now.name);
    if (before == processes_.end() || before->second != now.process)
      out.push_back({.source = i, .build_id = now.build_id, .process = now.process});
  }
  return out;
}

void Recording::stop(const Status& why) {
  files_.reset();
  again_at_ = runtime_.clock.now() + kAgain;
  miss();
  if (state_.stopped.empty())
    log::warning("metrics are not recorded: {}; that is tried again every minute, and nothing else stops",
                 why.to_string());
  state_.stopped = why.to_string();
}

}  // namespace kintsugi::recording
