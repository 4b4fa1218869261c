#include "client/lib/read/window_reader.h"

#include <algorithm>
#include <array>

#include "client/lib/read/strips.h"
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
  const Window widest = policy.rows() > 1 ? whole_cells(policy, window) : window;
  const size_t depth = buffers_for(widest.chunk_end - widest.chunk_begin);
  const bool tree = may_take_tree(policy, window);
  return policy.chunks() * depth + (tree ? depth + kTreeWindowBuffers : 0);
}

WindowReader::WindowReader(Core& core, Context context, const proto::Stripe& stripe,
                           const erasure::Policy& policy, Window window, Lease lease, Trees trees)
    : core_(core),
      context_(context),
      stripe_(stripe),
      policy_(policy),
      code_(erasure::Code::get(policy)),
      window_(std::move(window)),
      lease_(std::move(lease)),
      changed_(core.runtime),
      started_(core.now()),
      last_done_(started_),
      states_(policy.chunks(), State::kIdle),
      fetches_(policy.chunks()),
      decoded_(policy.chunks()),
      tree_allowed_(trees == Trees::kAllowed && may_take_tree(policy, window_)) {}

WindowReader::~WindowReader() {
  for (const auto& fetch : fetches_) {
    if (!fetch) continue;
    KINTSUGI_ASSERT(fetch->done() || !fetch->is_receiving());
    fetch->take_buffers();
  }
  KINTSUGI_ASSERT(!tree_ || tree_->done() || tree_buffers_.empty());
}

uint64_t WindowReader::chunk_bytes(uint32_t chunk) const {
  const uint64_t end = std::min(erasure::chunk_length(policy_, stripe_.length(), chunk), window_.chunk_end);
  return end > window_.chunk_begin ? end - window_.chunk_begin : 0;
}

bool WindowReader::done_are_enough() const {
  std::vector<uint32_t> done;
  for (uint32_t chunk = 0; chunk < policy_.chunks(); ++chunk) {
    if (states_[chunk] == State::kDone) done.push_back(chunk);
  }
  return code_->repairable(window_.wanted, done);
}

bool WindowReader::started_are_enough(std::span<const uint32_t> not_counted) const {
  std::vector<uint32_t> started;
  for (uint32_t chunk = 0; chunk < policy_.chunks(); ++chunk) {
    if (states_[chunk] != State::kRunning && states_[chunk] != State::kDone) continue;
    if (std::find(not_counted.begin(), not_counted.end(), chunk) == not_counted.end())
      started.push_back(chunk);
  }
  return code_->repairable(window_.wanted, started);
}

bool WindowReader::helps_locally(uint32_t chunk) const {
  for (const uint32_t member : code_->local_group(chunk)) {
    const bool wanted =
        std::find(window_.wanted.begin(), window_.wanted.end(), member) != window_.wanted.end();
    const bool counted_on = states_[member] == State::kRunning && hedged_ == 0;
    if (wanted && !counted_on && states_[member] != State::kDone) return true;
  }
  return false;
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
  // What costs nothing first, then wanted chunks, then local groups of theirs, then data; servers that look
  // bad only when the good ones are used up.
  std::optional<uint32_t> best;
  int best_rank = 0;
  for (uint32_t chunk = 0; chunk < policy_.chunks(); ++chunk) {
    if (states_[chunk] != State::kIdle) continue;
    const proto::ChunkPlacement& place = stripe_.chunks(static_cast<int>(chunk));
    const bool is_healthy = healthy(chunk);
    if (!is_healthy && (only_healthy || place.server_id() == 0 || place.address().empty())) continue;
    const bool wanted =
        std::find(window_.wanted.begin(), window_.wanted.end(), chunk) != window_.wanted.end();
    int rank = chunk_bytes(chunk) == 0 ? 5 : wanted ? 4 : chunk < policy_.k ? 2 : 1;
    if (!wanted && helps_locally(chunk)) rank = 3;
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

void WindowReader::start_enough(bool only_healthy, std::span<const uint32_t> not_counted) {
  while (!started_are_enough(not_counted)) {
    const auto chunk = next_candidate(only_healthy);
    if (!chunk) return;
    start(*chunk);
  }
}

bool WindowReader::covers_cells() const {
  return policy_.rows() == 1 ||
         (window_.chunk_begin % policy_.cell_bytes == 0 && window_.chunk_end % policy_.cell_bytes == 0);
}

void WindowReader::widen() {
  for (auto& fetch : fetches_) {
    if (fetch) fetch->take_buffers();
    fetch.reset();
  }
  for (auto& buffers : decoded_)
    buffers.clear();
  window_ = whole_cells(policy_, window_);
  std::fill(states_.begin(), states_.end(), State::kIdle);
  hedged_ = 0;
  hedge_rounds_ = 0;
  started_ = last_done_ = core_.now();
  must_widen_ = false;
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

TimePoint WindowReader::look_again() const {
  if (!waits_for_tree()) return hedge_rounds_ < kMaxHedgeRounds ? hedge_time() : TimePoint::max();
  const uint64_t bytes = chunk_bytes(tree_chunk_);
  return tree_->started() + std::max(kTreePatience, 4 * core_.fetch_times.usual_limit(bytes, Duration{}));
}

void WindowReader::hedge() {
  if (waits_for_tree()) {
    tree_lags_ = true;
    return;
  }
  ++hedge_rounds_;
  std::vector<uint32_t> lagging;
  for (uint32_t chunk = 0; chunk < policy_.chunks(); ++chunk) {
    if (states_[chunk] == State::kRunning) lagging.push_back(chunk);
  }
  if (lagging.size() > policy_.tolerated() || start_tree()) return;
  hedged_ = lagging.size();
  if (covers_cells()) start_enough(true, lagging);
}

asio::awaitable<Status> WindowReader::gather() {
  start_wanted();
  while (true) {
    settle();
    settle_tree();
    if (all_wanted_done() || (covers_cells() && done_are_enough())) co_return Status{};
    if (must_decode() && !waits_for_tree() && !start_tree()) {
      must_widen_ = !covers_cells();
      if (must_widen_) co_return Status{Code::kUnavailable, "needs whole cells"};
      start_enough(false, {});
      const bool tree_runs = tree_ && !tree_->done();
      if (!tree_runs && !started_are_enough({})) co_return too_few();
      settle();  // what needs no fetch is done already
      if (done_are_enough()) co_return Status{};
    }
    const TimePoint wake_at = std::min(look_again(), context_.deadline);
    const bool notified = co_await changed_.wait_until(wake_at);
    if (notified) continue;
    if (core_.now() >= context_.deadline) co_return Status{Code::kDeadlineExceeded, "reading a stripe"};
    hedge();
  }
}

asio::awaitable<void> WindowReader::cancel_rest() {
  cancel_tree();
  for (uint32_t chunk = 0; chunk < policy_.chunks(); ++chunk) {
    if (!fetches_[chunk] || fetches_[chunk]->done()) continue;
    const bool lagged = hedged_ > 0 || states_[chunk] == State::kDone;  // done: by a tree
    if (lagged) core_.health.failed(ServerId{stripe_.chunks(static_cast<int>(chunk)).server_id()});
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
  KINTSUGI_CO_ASSIGN(const erasure::DecodePlan plan, code_->plan_decode(have, missing));
  for (const uint32_t chunk : missing) {
    for (size_t i = 0; i < buffers_for(chunk_bytes(chunk)); ++i)
      decoded_[chunk].push_back(core_.memory.take());
  }
  std::array<std::span<const std::byte>, erasure::kMaxSymbols> in;
  std::array<std::span<std::byte>, erasure::kMaxSymbols> out;
  const uint32_t rows = policy_.rows();
  const size_t inputs = plan.helpers.size() * rows, outputs = missing.size() * rows;
  const auto decode_strip = [&](std::span<const uint64_t> begins, uint64_t bytes) {
    for (size_t i = 0; i < inputs; ++i) {
      const uint32_t chunk = plan.helpers[i / rows];
      in[i] = strip_part(begins[i % rows], bytes, chunk_bytes(chunk),
                         [&](size_t index) { return part(chunk, index); });
    }
    for (size_t i = 0; i < outputs; ++i) {
      const uint32_t chunk = missing[i / rows];
      out[i] = strip_part(begins[i % rows], bytes, chunk_bytes(chunk),
                          [&](size_t index) { return decoded_[chunk][index].span(); });
    }
    plan.decode(std::span(in).first(inputs), std::span(out).first(outputs));
  };
  for_each_strip(policy_, window_.chunk_end - window_.chunk_begin, decode_strip);
  co_return Status{};
}

std::span<const std::byte> WindowReader::part(uint32_t chunk, size_t index) const {
  if (!decoded_[chunk].empty()) return decoded_[chunk][index].span();
  return fetches_[chunk] ? fetches_[chunk]->part(index) : std::span<const std::byte>{};
}

std::vector<std::span<const std::byte>> WindowReader::bytes() const {
  std::vector<std::span<const std::byte>> ranges;
  for (const erasure::Piece& piece : erasure::pieces(policy_, window_.stripe_offset, window_.bytes)) {
    for (const auto& range : bytes_of(piece.chunk, piece.chunk_offset, piece.chunk_offset + piece.bytes))
      ranges.push_back(range);
  }
  return ranges;
}

std::vector<std::span<const std::byte>> WindowReader::bytes_of(uint32_t chunk, uint64_t begin,
                                                               uint64_t end) const {
  std::vector<std::span<const std::byte>> ranges;
  const uint64_t until = std::min(end - window_.chunk_begin, chunk_bytes(chunk));
  for (uint64_t at = begin - window_.chunk_begin; at < until;) {
    const size_t in_buffer = at % Memory::kBufferBytes;
    const size_t bytes = std::min<uint64_t>(until - at, Memory::kBufferBytes - in_buffer);
    ranges.push_back(part(chunk, at / Memory::kBufferBytes).subspan(in_buffer, bytes));
    at += bytes;
  }
  return ranges;
}

size_t WindowReader::chunks_fetched() const {
  return static_cast<size_t>(std::count_if(fetches_.begin(), fetches_.end(), [](const auto& fetch) {
    return fetch && fetch->done() && fetch->ok();
  }));
}

uint64_t WindowReader::bytes_fetched() const {
  uint64_t sum = 0;
  for (uint32_t chunk = 0; chunk < policy_.chunks(); ++chunk) {
    if (fetches_[chunk] && fetches_[chunk]->done() && fetches_[chunk]->ok()) sum += chunk_bytes(chunk);
  }
  return sum;
}

Status WindowReader::too_few() const {
  std::string reasons = failures_;
  for (const proto::ChunkPlacement& place : stripe_.chunks()) {
    if (states_[place.index()] != State::kIdle) continue;
    reasons += fmt::format("{}chunk {} is nowhere to be read", reasons.empty() ? "" : "; ", place.index());
  }
  const std::string too_few = policy_.local > 0 ? "too few" : fmt::format("fewer than {}", policy_.k);
  return {Code::kUnavailable, fmt::format("stripe {}: {} of {} chunks can be read: {}", stripe_.stripe_id(),
                                          too_few, policy_.chunks(), reasons)};
}

asio::awaitable<Status> WindowReader::run() {
  sight::Module module(context_, kReadWindow, {static_cast<double>(window_.bytes)});
  context_ = module.context();
  Status status = co_await gather();
  co_await cancel_rest();
  if (must_widen_) {
    widen();
    status = co_await gather();
    co_await cancel_rest();
  }
  module.output(0, static_cast<double>(hedged_));
  if (status.ok() && !all_wanted_done()) status = co_await decode();
  co_return module.finish(status);
}

}  // namespace kintsugi::client
