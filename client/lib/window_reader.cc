#include "client/lib/window_reader.h"

#include <algorithm>
#include <array>

#include "erasure/layout.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kReadWindow{"client.read_window", {"bytes"}, {"hedges"}};
constexpr sight::Site kDecode{"client.decode", {"chunks"}};

constexpr Duration kUnknownFetchTime = 1s;  ///< until enough was learned
constexpr int kLagFactor = 2;               ///< times the slowest of the others
constexpr int kMaxHedgeRounds = 4;          ///< each waits twice as long as the one before

size_t buffers_for(uint64_t bytes) {
  return (bytes + Memory::kBufferBytes - 1) / Memory::kBufferBytes;
}

}  // namespace

size_t WindowReader::buffers_needed(const erasure::Policy& policy, const Window& window) {
  return policy.chunks() * buffers_for(window.chunk_end - window.chunk_begin);
}

WindowReader::WindowReader(Core& core, Context context, const proto::Stripe& stripe,
                           const erasure::Policy& policy, Window window, Lease lease)
    : core_(core),
      context_(context),
      stripe_(stripe),
      policy_(policy),
      window_(std::move(window)),
      lease_(std::move(lease)),
      changed_(core.runtime),
      started_(core.now()),
      last_done_(started_),
      states_(policy.chunks(), State::kIdle),
      fetches_(policy.chunks()),
      decoded_(policy.chunks()) {}

WindowReader::~WindowReader() {
  for (const auto& fetch : fetches_) {
    if (!fetch) continue;
    KINTSUGI_ASSERT(fetch->done() || !fetch->is_receiving());
    fetch->take_buffers();
  }
}

uint64_t WindowReader::chunk_bytes(uint32_t chunk) const {
  const uint64_t end = std::min(erasure::chunk_length(policy_, stripe_.length(), chunk), window_.chunk_end);
  return end > window_.chunk_begin ? end - window_.chunk_begin : 0;
}

size_t WindowReader::count(State state) const {
  return static_cast<size_t>(std::count(states_.begin(), states_.end(), state));
}

bool WindowReader::all_wanted_done() const {
  return std::all_of(window_.wanted.begin(), window_.wanted.end(),
                     [this](uint32_t chunk) { return states_[chunk] == State::kDone; });
}

void WindowReader::start(uint32_t chunk) {
  const uint64_t bytes = chunk_bytes(chunk);
  if (bytes == 0) {  // ends before this window: zeros, known without asking
    states_[chunk] = State::kDone;
    return;
  }
  states_[chunk] = State::kRunning;
  const proto::ChunkPlacement& place = stripe_.chunks(static_cast<int>(chunk));
  fetches_[chunk] = std::make_shared<ChunkFetch>(core_, context_, stripe_.stripe_id(), place,
                                                 window_.chunk_begin, window_.chunk_begin + bytes, changed_);
  core_.background.spawn(ChunkFetch::run(fetches_[chunk]));
}

bool WindowReader::healthy(uint32_t chunk) const {
  if (chunk_bytes(chunk) == 0) return true;
  const proto::ChunkPlacement& place = stripe_.chunks(static_cast<int>(chunk));
  return place.available() && place.server_id() != 0 && !place.address().empty() &&
         !core_.health.avoid(ServerId{place.server_id()});
}

std::optional<uint32_t> WindowReader::next_candidate(bool only_healthy) const {
  // What costs nothing first, then wanted chunks, then data; servers that look bad only when the good ones
  // are used up.
  std::optional<uint32_t> best;
  int best_rank = 0;
  for (uint32_t chunk = 0; chunk < policy_.chunks(); ++chunk) {
    if (states_[chunk] != State::kIdle) continue;
    const proto::ChunkPlacement& place = stripe_.chunks(static_cast<int>(chunk));
    const bool is_healthy = healthy(chunk);
    if (!is_healthy && (only_healthy || place.server_id() == 0 || place.address().empty())) continue;
    const bool wanted =
        std::find(window_.wanted.begin(), window_.wanted.end(), chunk) != window_.wanted.end();
    int rank = chunk_bytes(chunk) == 0 ? 4 : wanted ? 3 : chunk < policy_.k ? 2 : 1;
    if (!is_healthy) rank -= place.available() ? 10 : 20;
    if (best && rank <= best_rank) continue;
    best = chunk;
    best_rank = rank;
  }
  return best;
}

void WindowReader::start_wanted() {
  for (uint32_t chunk : window_.wanted) {
    if (healthy(chunk)) start(chunk);
  }
}

void WindowReader::start_up_to(size_t target, bool only_healthy) {
  while (count(State::kRunning) + count(State::kDone) < target) {
    const auto chunk = next_candidate(only_healthy);
    if (!chunk) return;
    start(*chunk);
  }
}

bool WindowReader::must_decode() const {
  if (hedged_ > 0) return true;
  return std::any_of(window_.wanted.begin(), window_.wanted.end(), [this](uint32_t chunk) {
    return states_[chunk] == State::kIdle || states_[chunk] == State::kFailed;
  });
}

void WindowReader::settle() {
  for (uint32_t chunk = 0; chunk < policy_.chunks(); ++chunk) {
    if (states_[chunk] != State::kRunning || !fetches_[chunk]->done()) continue;
    if (fetches_[chunk]->ok()) {
      states_[chunk] = State::kDone;
      last_done_ = core_.now();
      core_.fetch_times.record(chunk_bytes(chunk), core_.now() - fetches_[chunk]->started());
    } else {
      states_[chunk] = State::kFailed;
      failures_ += (failures_.empty() ? "" : "; ") + fetches_[chunk]->status().to_string();
    }
  }
}

TimePoint WindowReader::hedge_time() const {
  const uint64_t bytes = chunk_bytes(window_.wanted.front());
  const Duration usual =
      std::max(core_.options.hedge_floor, core_.fetch_times.usual_limit(bytes, kUnknownFetchTime));
  const Duration others = kLagFactor * (last_done_ - started_);
  return started_ + (1 << hedge_rounds_) * std::max(usual, others);
}

void WindowReader::hedge() {
  ++hedge_rounds_;
  const size_t lagging = count(State::kRunning);
  if (lagging > policy_.m) return;
  hedged_ = lagging;
  start_up_to(policy_.k + hedged_, true);
}

asio::awaitable<Status> WindowReader::gather() {
  start_wanted();
  while (true) {
    settle();
    if (all_wanted_done() || count(State::kDone) >= policy_.k) co_return Status{};
    if (must_decode()) {
      start_up_to(policy_.k, false);
      if (count(State::kRunning) + count(State::kDone) < policy_.k) co_return too_few();
      settle();  // what needs no fetch is done already
      if (count(State::kDone) >= policy_.k) co_return Status{};
    }
    const TimePoint hedge_at = hedge_rounds_ < kMaxHedgeRounds ? hedge_time() : TimePoint::max();
    const TimePoint wake_at = std::min(hedge_at, context_.deadline);
    const bool notified = co_await changed_.wait_until(wake_at);
    if (notified) continue;
    if (core_.now() >= context_.deadline) co_return Status{Code::kDeadlineExceeded, "reading a stripe"};
    hedge();
  }
}

asio::awaitable<void> WindowReader::cancel_rest() {
  for (uint32_t chunk = 0; chunk < policy_.chunks(); ++chunk) {
    if (states_[chunk] != State::kRunning) continue;
    if (hedged_ > 0) core_.health.failed(ServerId{stripe_.chunks(static_cast<int>(chunk)).server_id()});
    fetches_[chunk]->cancel();
  }
  const auto is_receiving = [](const auto& fetch) { return fetch && fetch->is_receiving(); };
  while (std::any_of(fetches_.begin(), fetches_.end(), is_receiving))
    co_await changed_.wait();
}

asio::awaitable<Status> WindowReader::decode() {
  std::vector<uint32_t> have, missing;
  for (uint32_t chunk = 0; chunk < policy_.chunks(); ++chunk) {
    if (states_[chunk] == State::kDone) have.push_back(chunk);
  }
  for (uint32_t chunk : window_.wanted) {
    if (states_[chunk] != State::kDone && chunk_bytes(chunk) > 0) missing.push_back(chunk);
  }
  sight::Module module(context_, kDecode, {static_cast<double>(missing.size())});
  KINTSUGI_CO_ASSIGN(const erasure::DecodePlan plan,
                     erasure::Code::get(policy_)->plan_decode(have, missing));
  std::array<std::span<const std::byte>, erasure::kMaxChunks> in;
  std::array<std::span<std::byte>, erasure::kMaxChunks> out;
  const size_t depth = buffers_for(window_.chunk_end - window_.chunk_begin);
  for (size_t i = 0; i < depth; ++i) {
    for (size_t h = 0; h < plan.helpers.size(); ++h)
      in[h] = part(plan.helpers[h], i);
    for (size_t w = 0; w < missing.size(); ++w) {
      const uint64_t length = chunk_bytes(missing[w]), at = i * Memory::kBufferBytes;
      out[w] = {};
      if (at >= length) continue;
      decoded_[missing[w]].push_back(core_.memory.take());
      out[w] = decoded_[missing[w]].back().first(std::min<uint64_t>(length - at, Memory::kBufferBytes));
    }
    plan.decode(std::span(in).first(plan.helpers.size()), std::span(out).first(missing.size()));
  }
  co_return Status{};
}

std::span<const std::byte> WindowReader::part(uint32_t chunk, size_t index) const {
  if (!decoded_[chunk].empty()) return decoded_[chunk][index].span();
  return fetches_[chunk] ? fetches_[chunk]->part(index) : std::span<const std::byte>{};
}

std::vector<std::span<const std::byte>> WindowReader::bytes() const {
  std::vector<std::span<const std::byte>> ranges;
  for (const erasure::Piece& piece : erasure::pieces(policy_, window_.stripe_offset, window_.bytes)) {
    uint64_t at = piece.chunk_offset - window_.chunk_begin, left = piece.bytes;
    while (left > 0) {
      const size_t in_buffer = at % Memory::kBufferBytes;
      const size_t bytes = std::min<uint64_t>(left, Memory::kBufferBytes - in_buffer);
      ranges.push_back(part(piece.chunk, at / Memory::kBufferBytes).subspan(in_buffer, bytes));
      at += bytes;
      left -= bytes;
    }
  }
  return ranges;
}

Status WindowReader::too_few() const {
  std::string reasons = failures_;
  for (const proto::ChunkPlacement& place : stripe_.chunks()) {
    if (states_[place.index()] != State::kIdle) continue;
    reasons += fmt::format("{}chunk {} is nowhere to be read", reasons.empty() ? "" : "; ", place.index());
  }
  return {Code::kUnavailable, fmt::format("stripe {}: fewer than {} of {} chunks can be read: {}",
                                          stripe_.stripe_id(), policy_.k, policy_.chunks(), reasons)};
}

asio::awaitable<Status> WindowReader::run() {
  sight::Module module(context_, kReadWindow, {static_cast<double>(window_.bytes)});
  context_ = module.context();
  Status status = co_await gather();
  co_await cancel_rest();
  module.output(0, static_cast<double>(hedged_));
  if (status.ok() && !all_wanted_done()) status = co_await decode();
  co_return module.finish(status);
}

}  // namespace kintsugi::client
