#include "repair_manager/what_if/simulated_loss.h"

#include <algorithm>

#include "common/log/silence.h"
#include "erasure/code.h"
#include "repair_manager/manager/repair_manager.h"
#include "repair_manager/what_if/virtual_world.h"

namespace kintsugi::what_if {
namespace {

using repair_manager::ChunkView;
using repair_manager::RepairManager;
using repair_manager::StripeView;

/// Nothing has happened for so long, and nothing runs: what still waits has nowhere to go.
constexpr Duration kStandsStill = std::chrono::minutes(2);
constexpr int kProgressParts = 16;
constexpr Duration kLongest = std::chrono::hours(24 * 365 * 100);

class Run {
 public:
  Run(FluidState state, const repair_manager::Options& options, const WhatIfKnobs& knobs)
      : options_(in_simulated_time(options, state.seconds_each)),
        knobs_(knobs),
        world_(1),
        cluster_(world_.executor(), world_.clock(), std::move(state)),
        manager_(world_.runtime(), options_, cluster_, nullptr),
        began_(world_.now()) {
    for (const StripeView& stripe : cluster_.state().stripes)
      count(stripe, *erasure::Code::get(*erasure::Policy::parse(stripe.policy)));
    if (!knobs_.phases.empty()) set_phase(0);
  }

  SimulatedLoss carry_out(size_t most_links) {
    manager_.start();
    for (auto& [server, chunks] : cluster_.missing_chunks())
      declare_dead(server, std::move(chunks));
    world_.run_until([this] { return all_done() || stands_still(); }, kLongest);
    loss_.failed = manager_.counts().failed;
    loss_.work.turns = cluster_.network().turns();
    loss_.work.shares = cluster_.network().share_visits();
    loss_.work.plans = manager_.counts().done;
    cluster_.stop();
    world_.run(manager_.stop());
    note_times();
    note_links(most_links);
    return std::move(loss_);
  }

 private:
  /// Nothing fails here, however long a repair takes that stands for many.
  static repair_manager::Options in_simulated_time(repair_manager::Options options, double seconds_each) {
    options.delay = std::chrono::duration_cast<Duration>(options.delay / seconds_each);
    options.min_deadline = kLongest;
    return options;
  }

  /// Does so now, or when it is time. Until then the chunks are thought to be there.
  void declare_dead(ServerId server, std::vector<ChunkId> chunks) {
    const FluidState& state = cluster_.state();
    const size_t at = server.value - 1;  // none where no server had the chunks
    const double wait = at < state.declared_seconds.size() ? state.declared_seconds[at] : 0;
    if (wait <= 0) {
      manager_.server_dead(server, std::move(chunks));
      return;
    }
    cluster_.set_available(chunks, true);
    const std::chrono::duration<double> simulated{wait / state.seconds_each};
    world_.clock().call_at(began_ + std::chrono::duration_cast<Duration>(simulated),
                           [this, server, chunks = std::move(chunks)] {
                             cluster_.set_available(chunks, false);
                             manager_.server_dead(server, chunks);
                           });
  }

  /// Seconds from the first declaration of death until then, of those that simulated ones stand for.
  double seconds_until(TimePoint then) const {
    return to_seconds(then - began_) * cluster_.state().seconds_each;
  }

  void count(const StripeView& stripe, const erasure::Code& code) {
    const uint32_t tolerated = code.policy().tolerated();
    tolerated_.push_back(tolerated);
    if (loss_.by_spare.size() < tolerated) loss_.by_spare.resize(tolerated);
    std::vector<uint32_t> left;
    double bytes = 0;
    uint32_t lacking = 0;
    const double each = cluster_.repairs_for(stripe.id);
    for (const ChunkView& chunk : stripe.chunks) {
      if (chunk.available || chunk.length == 0) {
        left.push_back(chunk.index);
      } else {
        ++lacking;
        bytes += each * static_cast<double>(chunk.length);
      }
    }
    if (lacking == 0) return;
    loss_.stripes += each;
    loss_.chunks += each * lacking;
    loss_.simulated += lacking;
    if (!code.decodable(left)) {
      loss_.lost_stripes += each;
      lost_.push_back(stripe.id);
      return;
    }
    repairable_ += lacking;
    chunk_bytes_ = bytes / (each * lacking);
    waiting_ += each * lacking;
    loss_.bytes += bytes;
    loss_.by_spare[spare_of(stripe.id, lacking)].stripes += each;
  }

  uint32_t spare_of(StripeId stripe, uint32_t lacking) const {
    const uint32_t tolerated = tolerated_[stripe.value - 1];
    return tolerated - std::min(lacking, tolerated);
  }
  bool can_be_whole(StripeId stripe) const { return !std::ranges::binary_search(lost_, stripe); }

  bool all_done() {
    for (; seen_ < cluster_.commits().size(); ++seen_) {
      const FluidCluster::Commit& commit = cluster_.commits()[seen_];
      if (!can_be_whole(commit.stripe)) continue;
      ++rebuilt_;
      waiting_ -= cluster_.repairs_for(commit.stripe);
      bytes_rebuilt_ += commit.bytes;
    }
    if (!knobs_.phases.empty() && loss_.bytes > 0) {
      const size_t phase = knobs_.phase_at(bytes_rebuilt_ / loss_.bytes);
      if (phase != phase_) set_phase(phase);
    }
    return rebuilt_ == repairable_;
  }

  void set_phase(size_t phase) {
    phase_ = phase;
    const double chunk_seconds = chunk_bytes_ / options_.link.bytes_per_second;
    cluster_.network().set_precision(together_seconds(knobs_.level(phase, Block::kRates), chunk_seconds),
                                     most_full_links(knobs_.level(phase, Block::kFilling)));
  }

  bool stands_still() const {
    const TimePoint last =
        cluster_.commits().empty() ? began_ + options_.delay : cluster_.commits().back().at;
    return world_.now() > std::max(last, began_ + options_.delay) + kStandsStill &&
           manager_.counts().running == 0;
  }

  void note_times() {
    if (cluster_.first_begin()) loss_.begins_seconds = seconds_until(*cluster_.first_begin());
    for (const FluidCluster::Commit& commit : cluster_.commits()) {
      if (!can_be_whole(commit.stripe)) continue;
      const double at = seconds_until(commit.at);
      add_progress(commit);
      if (rebuilt_ == repairable_) loss_.all_seconds = at;
      // Stripes pass all the levels above their own.
      for (uint32_t spare = spare_of(commit.stripe, commit.lacking); spare < loss_.by_spare.size(); ++spare)
        loss_.by_spare[spare].until_seconds = at;
    }
    std::ranges::sort(progress_);
    double done = 0;
    for (const auto& [at, bytes] : progress_) {
      done += bytes;
      if (done >= 0.5 * loss_.bytes && !loss_.half_seconds) loss_.half_seconds = at;
      if (done >= 0.9 * loss_.bytes && !loss_.most_seconds) loss_.most_seconds = at;
    }
    loss_.progress = std::move(progress_);
    loss_.waiting_chunks = rebuilt_ == repairable_ ? 0 : waiting_;
  }

  /// Bytes are rebuilt between a repair's begin and its end, at one rate.
  void add_progress(const FluidCluster::Commit& commit) {
    const double began = seconds_until(commit.began), ended = seconds_until(commit.at);
    for (int i = 1; i <= kProgressParts; ++i)
      progress_.emplace_back(began + (ended - began) * i / kProgressParts, commit.bytes / kProgressParts);
  }

  void note_links(size_t most) {
    const double seconds = loss_.all_seconds.value_or(seconds_until(world_.now())) - loss_.begins_seconds;
    const FluidNetwork& network = cluster_.network();
    for (uint32_t link = 0; link < network.links(); ++link) {
      const double bytes = network.carried(link) * cluster_.state().seconds_each;
      if (bytes > 0) loss_.busiest.push_back({link, bytes, bytes / (network.capacity(link) * seconds)});
    }
    std::ranges::stable_sort(loss_.busiest, std::greater<>(), &LinkUse::busy);
    loss_.busiest.resize(std::min(loss_.busiest.size(), most));
    if (cluster_.has_rack_links()) loss_.rack_links = cluster_.rack_up(0);
  }

  const repair_manager::Options options_;
  const WhatIfKnobs knobs_;
  VirtualWorld world_;
  FluidCluster cluster_;
  RepairManager manager_;
  const TimePoint began_;
  std::vector<uint32_t> tolerated_;                 // index: stripe; losses that its code survives
  std::vector<StripeId> lost_;                      // ascending: stripes whose data is lost
  size_t repairable_ = 0, rebuilt_ = 0, seen_ = 0;  // chunks of the state
  double waiting_ = 0;        // repairs for which those of repairable_ stand that are not rebuilt_
  double chunk_bytes_ = 0;    // of a chunk that can be rebuilt
  double bytes_rebuilt_ = 0;  // by all repairs for which those of rebuilt_ stand
  size_t phase_ = 0;
  std::vector<std::pair<double, double>> progress_;  // seconds, and bytes that were rebuilt then
  SimulatedLoss loss_;
};

}  // namespace

SimulatedLoss simulate_loss(FluidState state, const repair_manager::Options& options, size_t most_links,
                            const WhatIfKnobs& knobs) {
  // This may run in a repair manager whose log tells of repairs that happen.
  const log::Silence silence;
  return Run(std::move(state), options, knobs).carry_out(most_links);
}

}  // namespace kintsugi::what_if
