#include "monitoring/recording/sampled_daemon.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include "common/log/log.h"

namespace kintsugi::recording {
namespace {

// Resources that a process can use up, in its row of /proc.
constexpr std::string_view kDescriptors = "fds", kMemory = metric_trace::kMemoryColumn;

bool is_same(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

metric_trace::Kind kind_of(sampling::Kind kind) {
  return kind == sampling::Kind::kCounter ? metric_trace::Kind::kCounter : metric_trace::Kind::kGauge;
}

}  // namespace

SampledDaemon::SampledDaemon(const runtime::Runtime& runtime, Target target) : runtime_(runtime) {
  change(std::move(target));
}

void SampledDaemon::change(Target target) {
  if (target == target_) return;
  const bool other = target.process != target_.process;
  if (other || target.is_local != target_.is_local || target.pid != target_.pid) {
    process_.reset();
    if (target.is_local && target.pid != 0) {
      process_.emplace(target.pid);
      look_at_limits();
      process_row_.resize(sampling::ProcessSampler::metrics().size());
      has_more_ = has_more_ || process_columns_ == 0;
    }
  }
  if (other || target.page != target_.page) {
    page_.reset();
    page_again_ = {};
    for (auto& [name, region] : region_)
      region.ended.reset();
    if (target.page) page_ = std::make_unique<Page>(runtime_, *target.page, target.pid);
  }
  target_ = std::move(target);
}

double SampledDaemon::Limits::of(std::string_view metric) const {
  if (metric == kDescriptors) return descriptors;
  return metric == kMemory ? memory : metric_trace::kMissing;
}

void SampledDaemon::look_at_limits() {
  const Limits now{.descriptors = process_->descriptors_limit(), .memory = process_->memory_limit()};
  const Limits before = std::exchange(limits_, now);
  has_more_ =
      has_more_ || !is_same(before.descriptors, now.descriptors) || !is_same(before.memory, now.memory);
  samples_until_limit_ = kLimitEvery;
}

void SampledDaemon::sample_process() {
  process_answered_ = false;
  if (!process_) return;
  if (--samples_until_limit_ == 0) look_at_limits();
  const sampling::Presence presence = process_->sample(process_row_);
  process_answered_ = presence == sampling::Presence::kHere;
  // Whoever has its pid now is somebody else; the target says so when the same daemon is back.
  if (!process_answered_) process_.reset();
}

asio::awaitable<void> SampledDaemon::sample_page(TimePoint deadline) {
  page_answered_ = false;
  if (!page_ || runtime_.clock.now() < page_again_) co_return;
  try {
    const Status status = co_await page_->reader.read(deadline);
    if (status.ok() && page_->placed != page_->reader.names()) place_metrics();
    if (status.ok()) note_regions();
    page_answered_ = status.ok();
  } catch (const std::exception& failure) {
    log::debug("the page of {} is not sampled: {}", target_.name,
               failure.what());  // memory was not to be had, say
  }
  if (!page_answered_) page_again_ = runtime_.clock.now() + kPageAgain;
}

void SampledDaemon::place_metrics() {
  page_->placed = page_->reader.names();
  page_->columns.clear();
  for (const PageNames::Metric& metric : page_->placed.metrics) {
    const auto column = column_.find(metric.name);
    page_->columns.push_back(column == column_.end() ? std::nullopt : std::optional(column->second));
    has_more_ = has_more_ || column == column_.end();
  }
}

void SampledDaemon::note_regions() {
  for (const auto* counts : {&page_->reader.values().open, &page_->reader.values().ended})
    for (const auto& [name, count] : *counts)
      if (region_.size() < SamplePage::kMostRegions && region_.try_emplace(name).second) has_more_ = true;
}

void SampledDaemon::describe(metric_trace::Header& header) {
  has_more_ = false;
  source_.reset();
  column_.clear();
  process_columns_ = 0;
  first_ = header.metrics.size();
  for (auto& [name, region] : region_)
    region.place.reset();
  const auto of_process =
      process_ ? sampling::ProcessSampler::metrics() : std::span<const sampling::Metric>();
  const size_t of_page = page_ ? page_->reader.names().metrics.size() : 0;
  if (header.sources.size() >= metric_trace::kMostSources ||
      header.metrics.size() + of_process.size() + of_page > metric_trace::kMostMetrics)
    return;
  const auto source = static_cast<uint32_t>(header.sources.size());
  source_ = source;
  header.sources.push_back({.name = target_.name, .build_id = target_.build_id, .process = target_.process});
  process_columns_ = of_process.size();
  for (const sampling::Metric& metric : of_process)
    header.metrics.push_back({.name = std::string(metric.name),
                              .kind = kind_of(metric.kind),
                              .source = source,
                              .limit = limits_.of(metric.name)});
  if (page_) {
    for (const PageNames::Metric& metric : page_->reader.names().metrics) {
      if (!column_.try_emplace(metric.name, header.metrics.size()).second) continue;
      header.metrics.push_back({.name = metric.name, .kind = metric.kind, .source = source});
    }
    place_metrics();
  }
  for (auto& [name, region] : region_) {
    if (header.regions.size() >= metric_trace::kMostRegions) break;
    region.place = static_cast<uint32_t>(header.regions.size());
    header.regions.push_back({.name = name, .source = source});
  }
}

void SampledDaemon::fill(metric_trace::Row& row) {
  if (!source_) return;
  if (std::exchange(process_answered_, false) && process_columns_ > 0)
    std::ranges::copy(process_row_, row.values.begin() + static_cast<ptrdiff_t>(first_));
  if (!std::exchange(page_answered_, false)) return;
  const PageValues& page = page_->reader.values();
  for (size_t i = 0; i < page.values.size(); ++i)
    if (page_->columns[i]) row.values[*page_->columns[i]] = page.values[i];
  fill_regions(row.activity);
}

void SampledDaemon::fill_regions(std::vector<metric_trace::RegionActivity>& activity) {
  std::map<uint32_t, metric_trace::RegionActivity> by_place;
  for (const auto& [name, open] : page_->reader.values().open)
    if (const auto region = region_.find(name); region != region_.end() && region->second.place)
      by_place[*region->second.place].open = static_cast<float>(open);
  for (const auto& [name, ended] : page_->reader.values().ended) {
    const auto region = region_.find(name);
    if (region == region_.end()) continue;
    std::optional<double> before = std::exchange(region->second.ended, ended);
    // Who was asked before, and did not name it, had not ended any.
    if (!before && page_->counted) before = 0;
    if (before && ended > *before && region->second.place)
      by_place[*region->second.place].ended = static_cast<float>(ended - *before);
  }
  // A page that names as many as are taken may have more.
  page_->counted = page_->reader.values().ended.size() < SamplePage::kMostRegions;
  for (auto& [place, each] : by_place) {
    each.region = place;
    activity.push_back(each);
  }
}

}  // namespace kintsugi::recording
