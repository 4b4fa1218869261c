#include "monitoring/daemon/mounts.h"

#include <string>
#include <utility>

#include "monitoring/model/counters.h"

namespace kintsugi::monitoring {
namespace {

/// An operation of this kind takes as long as other applications like.
constexpr std::string_view kWaitsForOthers = "wait_for_lock";

}  // namespace

std::vector<const model::ProcessView*> mounts_of(const model::Snapshot& snapshot) {
  std::map<std::pair<std::string, std::string>, const model::ProcessView*> latest;
  for (const auto& view : snapshot.processes) {
    if (!view->last().has_mount() || snapshot.silent(*view) > kForgetMount) continue;
    const model::ProcessView*& known = latest[{view->last().host(), view->last().mount().directory()}];
    if (known == nullptr || known->started() < view->started()) known = view.get();
  }
  std::vector<const model::ProcessView*> mounts;
  for (const auto& [place, view] : latest)
    if (mounts.size() < kMostMounts) mounts.push_back(view);
  return mounts;
}

MountTrends::Sample MountTrends::sample_of(const model::ProcessView& view) {
  const proto::SightMount& mount = view.last().mount();
  Sample sample;
  sample.read_bytes = mount.read_bytes();
  sample.written_bytes = mount.written_bytes();
  for (const proto::SightMount::Operations& operations : mount.operations()) {
    if (operations.kind() == kWaitsForOthers) continue;
    sample.operations += operations.requests();
    sample.errors += operations.errors();
    sample.ns += operations.ns();
  }
  return sample;
}

void MountTrends::look(const model::Snapshot& snapshot) {
  if (last_ != TimePoint{} && snapshot.taken - last_ < kStep) return;
  last_ = snapshot.taken;
  std::map<uint64_t, Series> kept;
  for (const model::ProcessView* view : mounts_of(snapshot)) {
    Series series;
    if (const auto known = mounts_.find(view->process()); known != mounts_.end())
      series = std::move(known->second);
    // Of one that is silent the samples continue: what it does is not known, and nothing is shown soon.
    Sample now = sample_of(*view);
    now.at = snapshot.taken;
    series.samples.push_back(now);
    if (series.samples.size() > kSamples) series.samples.pop_front();
    const Sample& first = series.samples.front();
    const double seconds = to_seconds(now.at - first.at),
                 ended = model::grown(first.operations, now.operations);
    if (seconds > 0)
      series.trend = {
          .operations_per_second = ended / seconds,
          .errors_per_second = model::grown(first.errors, now.errors) / seconds,
          .latency_seconds = ended > 0 ? model::grown(first.ns, now.ns) / ended / 1e9 : 0,
          .read_bytes_per_second = model::grown(first.read_bytes, now.read_bytes) / seconds,
          .written_bytes_per_second = model::grown(first.written_bytes, now.written_bytes) / seconds};
    kept.emplace(view->process(), std::move(series));
  }
  mounts_ = std::move(kept);
}

const MountTrend* MountTrends::of(uint64_t process) const {
  const auto found = mounts_.find(process);
  return found == mounts_.end() ? nullptr : &found->second.trend;
}

}  // namespace kintsugi::monitoring
