#include "client/lib/read/window_reader.h"

#include <algorithm>

#include "client/lib/read/fetch_patience.h"
#include "client/lib/read/window_decode.h"
#include "erasure/layout.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kReadWindow{"client.read_window", {"bytes"}, {"hedges"}};
constexpr sight::Site kDecode{"client.decode", {"chunks"}};

constexpr int kLagFactor = 2;       ///< times the slowest of the others
constexpr int kMaxHedgeRounds = 4;  ///< each waits twice as long as the one before

}  // namespace

size_t WindowReader::buffers_needed(const StripeWindow& of) {
  // Copies of one block come without buffers, so one is more than all of them, and what is decoded, take.
  if (of.policy.k == 1 && of.stripe->length() <= kBlockBytes) return 1;
  const Window widest = of.policy.rows() > 1 ? whole_cells(of.policy, of.window) : of.window;
  const size_t depth = Memory::buffers_for(widest.chunk_end - widest.chunk_begin);
  const size_t for_tree = WindowTree::may_pay(of) ? depth + WindowTree::kSumBuffers : 0;
  return of.policy.chunks() * depth + for_tree;
}

size_t WindowReader::least_buffers(const StripeWindow& of) {
  if (of.window.wanted.size() != 1) return buffers_needed(of);
  return std::max<size_t>(1, Memory::buffers_for(of.chunk_bytes(of.window.wanted.front())));
}

WindowReader::WindowReader(Resources& resources, Context context, StripeWindow window, Trees trees)
    : resources_(resources),
      context_(context),
      window_(std::move(window)),
      buffers_needed_(buffers_needed(window_)),
      changed_(resources.runtime),
      tree_(resources, trees == Trees::kAllowed && WindowTree::may_pay(window_)) {}

asio::awaitable<Status> WindowReader::run(Lease lease) {
  lease_ = std::move(lease);
  sight::Task module(context_, kReadWindow, {static_cast<double>(window_.window.bytes)});
  context_ = module.context();
  chunks_.emplace(resources_, context_, window_, changed_);
  Status status = co_await gather();
  co_await cancel_rest();
  if (must_widen_) {
    widen();
    status = co_await gather();
    co_await cancel_rest();
  }
  module.output(0, static_cast<double>(chunks_->counted_out()));
  if (status.ok() && !chunks_->all_wanted_done()) {
    const auto missing = std::ranges::count_if(window_.window.wanted, [this](uint32_t chunk) {
      return chunks_->state(chunk) != WindowChunks::State::kDone;
    });
    sight::Compute decoding(context_, kDecode, {static_cast<double>(missing)});
    status = decoding.finish(decode_missing(*chunks_, resources_.memory));
  }
  co_return module.finish(status);
}

asio::awaitable<Status> WindowReader::gather() {
  chunks_->start_wanted();
  while (true) {
    chunks_->settle();
    tree_.settle(*chunks_);
    if (chunks_->all_wanted_done() || (covers_cells() && chunks_->done_are_enough())) co_return Status{};
    const bool needs_others = chunks_->must_decode() && !tree_.is_waited_for();
    if (needs_others && !may_use_others())
      co_return Status{Code::kLimitExceeded, "there is no memory for other chunks now"};
    if (needs_others && !start_tree()) {
      must_widen_ = !covers_cells();
      if (must_widen_) co_return Status{Code::kUnavailable, "needs whole cells"};
      chunks_->start_enough(false, {});
      // A tree that lags may still deliver what too few chunks cannot.
      if (!tree_.is_running() && !chunks_->started_are_enough({}))
        co_return chunks_->too_few(tree_.failure());
      if (chunks_->done_are_enough()) co_return Status{};  // chunks that end before need no fetch
    }
    const TimePoint wake_at = std::min(look_again(), context_.deadline);
    const sight::Wait wait(context_, sight::WaitKind::kJoin, 0, 0, fetches_needed());
    if (co_await changed_.wait_until(wake_at)) continue;
    if (resources_.now() >= context_.deadline) co_return Status{Code::kDeadlineExceeded, "reading a stripe"};
    hedge();
  }
}

/// How many of those that run have to end well.
uint8_t WindowReader::fetches_needed() const {
  const size_t done = chunks_->in_state(WindowChunks::State::kDone).size();
  const size_t wanted = chunks_->must_decode() ? window_.policy.k : window_.window.wanted.size();
  return static_cast<uint8_t>(wanted > done ? wanted - done : 1);
}

asio::awaitable<void> WindowReader::cancel_rest() {
  tree_.cancel();
  const sight::Wait wait(context_, sight::WaitKind::kJoin);
  co_await chunks_->cancel_rest();
}

bool WindowReader::covers_cells() const {
  return window_.policy.rows() == 1 || whole_cells(window_.policy, window_.window) == window_.window;
}

void WindowReader::widen() {
  window_.window = whole_cells(window_.policy, window_.window);
  // The narrow window's buffers go back first: the lease does not cover both.
  chunks_.reset();
  chunks_.emplace(resources_, context_, window_, changed_);
  hedge_rounds_ = 0;
  must_widen_ = false;
}

void WindowReader::hedge() {
  if (tree_.is_waited_for()) {
    tree_.count_out();
    return;
  }
  if (!no_hedge_left_ && !resources_.hedges.take()) {
    no_hedge_left_ = true;
    return;
  }
  no_hedge_left_ = false;
  ++hedge_rounds_;
  const std::vector<uint32_t> lagging = chunks_->in_state(WindowChunks::State::kRunning);
  if (lagging.size() > window_.policy.tolerated()) return;
  const bool may_start = may_use_others();
  if (may_start && start_tree()) return;
  chunks_->count_out_running(lagging.size());
  if (may_start && covers_cells()) chunks_->start_enough(true, lagging);
}

bool WindowReader::may_use_others() {
  if (lease_.count() < buffers_needed_)
    lease_.add(resources_.memory.try_reserve(buffers_needed_ - lease_.count()));
  return lease_.count() >= buffers_needed_;
}

TimePoint WindowReader::hedge_time() const {
  const uint64_t bytes = window_.chunk_bytes(window_.window.wanted.front());
  const FetchPatience patience(resources_, bytes);
  const Duration usual = no_hedge_left_ ? patience.late : patience.early;
  const Duration others = kLagFactor * (chunks_->last_done() - chunks_->began());
  return chunks_->began() + (1 << hedge_rounds_) * std::max(usual, others);
}

TimePoint WindowReader::look_again() const {
  if (tree_.is_waited_for()) return tree_.patience_end(*chunks_);
  return hedge_rounds_ < kMaxHedgeRounds ? hedge_time() : TimePoint::max();
}

std::vector<std::span<const std::byte>> WindowReader::bytes() const {
  std::vector<std::span<const std::byte>> ranges;
  for (const erasure::Piece& piece :
       erasure::pieces(window_.policy, window_.window.stripe_offset, window_.window.bytes)) {
    for (const auto& range :
         chunks_->bytes_of(piece.chunk, piece.chunk_offset, piece.chunk_offset + piece.bytes))
      ranges.push_back(range);
  }
  return ranges;
}

Lease WindowReader::take_lease() {
  chunks_.reset();
  return std::move(lease_);
}

}  // namespace kintsugi::client
