#include "client/lib/read/window_chunks.h"

#include <algorithm>

#include "client/lib/read/fetch_patience.h"
#include "common/base/assert.h"

namespace kintsugi::client {

WindowChunks::WindowChunks(Resources& resources, Context context, StripeWindow window,
                           runtime::Event& changed)
    : resources_(resources),
      context_(context),
      window_(std::move(window)),
      code_(erasure::Code::get(window_.policy)),
      changed_(changed),
      began_(resources.now()),
      last_done_(began_),
      states_(chunks(), State::kIdle),
      fetches_(chunks()),
      put_(chunks()) {}

WindowChunks::~WindowChunks() {
  for (const auto& fetch : fetches_) {
    if (!fetch) continue;
    KINTSUGI_ASSERT(fetch->done() || !fetch->is_receiving());
    // A cancelled fetch lives on in the background; its buffers go back now, before the lease does.
    fetch->take_buffers();
  }
}

std::vector<uint32_t> WindowChunks::in_state(State state) const {
  std::vector<uint32_t> found;
  for (uint32_t chunk = 0; chunk < chunks(); ++chunk) {
    if (states_[chunk] == state) found.push_back(chunk);
  }
  return found;
}

// ---- fetching

void WindowChunks::start(uint32_t chunk) {
  const uint64_t bytes = window_.chunk_bytes(chunk);
  if (bytes == 0) {  // ends before this window: zeros, known without asking
    states_[chunk] = State::kDone;
    return;
  }
  states_[chunk] = State::kRunning;
  const uint64_t begin = window_.window.chunk_begin;
  ChunkRange range{window_.stripe->stripe_id(), window_.placement(chunk), begin, begin + bytes};
  resources_.hedges.earn();
  fetches_[chunk] = std::make_shared<ChunkFetch>(resources_, context_, std::move(range), changed_);
  resources_.background.spawn(ChunkFetch::run(fetches_[chunk]));
}

void WindowChunks::start_wanted() {
  for (const uint32_t chunk : window_.window.wanted) {
    if (is_healthy(chunk)) start(chunk);
  }
}

void WindowChunks::start_enough(bool only_healthy, std::span<const uint32_t> not_counted) {
  while (!started_are_enough(not_counted)) {
    const auto chunk = next_candidate(only_healthy);
    if (!chunk) return;
    start(*chunk);
  }
}

bool WindowChunks::is_healthy(uint32_t chunk) const {
  if (window_.chunk_bytes(chunk) == 0) return true;
  const proto::ChunkPlacement& place = window_.placement(chunk);
  return place.available() && place.server_id() != 0 && !place.address().empty() &&
         !resources_.health.go_around(ServerId{place.server_id()});
}

bool WindowChunks::is_wanted(uint32_t chunk) const {
  return std::ranges::find(window_.window.wanted, chunk) != window_.window.wanted.end();
}

bool WindowChunks::helps_locally(uint32_t chunk) const {
  for (const uint32_t member : code_->local_group(chunk)) {
    const bool counted_on = states_[member] == State::kRunning && counted_out_ == 0;
    if (is_wanted(member) && !counted_on && states_[member] != State::kDone) return true;
  }
  return false;
}

int WindowChunks::rank(uint32_t chunk, bool healthy) const {
  // Chunks that cost nothing come first, then wanted ones, then their local groups, then data; servers that look bad
  // only when the good ones are used up, and of those the slow ones first.
  const bool wanted = is_wanted(chunk);
  int result = chunk < window_.policy.k ? 2 : 1;
  if (!wanted && helps_locally(chunk)) {
    result = 3;
  } else if (window_.chunk_bytes(chunk) == 0) {
    result = 5;
  } else if (wanted) {
    result = 4;
  }
  if (healthy) return result;
  const proto::ChunkPlacement& place = window_.placement(chunk);
  if (!place.available()) return result - 30;
  return result - (resources_.health.avoid(ServerId{place.server_id()}) ? 20 : 10);
}

std::optional<uint32_t> WindowChunks::next_candidate(bool only_healthy) const {
  std::optional<uint32_t> best;
  int best_rank = 0;
  for (const uint32_t chunk : in_state(State::kIdle)) {
    const proto::ChunkPlacement& place = window_.placement(chunk);
    const bool healthy = is_healthy(chunk);
    if (!healthy && (only_healthy || place.server_id() == 0 || place.address().empty())) continue;
    const int chunk_rank = rank(chunk, healthy);
    if (best && chunk_rank <= best_rank) continue;
    best = chunk;
    best_rank = chunk_rank;
  }
  return best;
}

void WindowChunks::settle() {
  for (uint32_t chunk = 0; chunk < chunks(); ++chunk) {
    if (states_[chunk] != State::kRunning || !fetches_[chunk]->done()) continue;
    const ChunkFetch& fetch = *fetches_[chunk];
    if (fetch.ok()) {
      states_[chunk] = State::kDone;
      last_done_ = resources_.now();
      note_fetch(resources_, ServerId{window_.placement(chunk).server_id()}, window_.chunk_bytes(chunk),
                 last_done_ - fetch.started());
    } else {
      states_[chunk] = State::kFailed;
      failures_ += (failures_.empty() ? "" : "; ") + fetch.status().to_string();
    }
  }
}

void WindowChunks::put(uint32_t chunk, std::vector<runtime::Buffer> buffers) {
  put_[chunk] = std::move(buffers);
  states_[chunk] = State::kDone;
  last_done_ = resources_.now();
}

asio::awaitable<void> WindowChunks::cancel_rest() {
  for (uint32_t chunk = 0; chunk < chunks(); ++chunk) {
    if (!fetches_[chunk] || fetches_[chunk]->done()) continue;
    const bool lagged = counted_out_ > 0 || states_[chunk] == State::kDone;  // done: a tree was faster
    if (lagged)
      note_given_up(resources_, ServerId{window_.placement(chunk).server_id()}, window_.chunk_bytes(chunk),
                    resources_.now() - fetches_[chunk]->started());
    fetches_[chunk]->cancel();
  }
  const auto is_receiving = [](const auto& fetch) { return fetch && fetch->is_receiving(); };
  while (std::ranges::any_of(fetches_, is_receiving))
    co_await changed_.wait();
}

// ---- how far it is

bool WindowChunks::all_wanted_done() const {
  return std::ranges::all_of(window_.window.wanted,
                             [this](uint32_t chunk) { return states_[chunk] == State::kDone; });
}

bool WindowChunks::must_decode() const {
  if (counted_out_ > 0) return true;
  return std::ranges::any_of(window_.window.wanted, [this](uint32_t chunk) {
    return states_[chunk] == State::kIdle || states_[chunk] == State::kFailed;
  });
}

bool WindowChunks::done_are_enough() const {
  const std::vector<uint32_t> done = in_state(State::kDone);
  // A window wants one chunk, or data chunks, and none of those follows from the others.
  if (std::ranges::all_of(done, [this](uint32_t chunk) { return is_wanted(chunk); }))
    return all_wanted_done();
  return code_->repairable(window_.window.wanted, done);
}

bool WindowChunks::started_are_enough(std::span<const uint32_t> not_counted) const {
  std::vector<uint32_t> started;
  for (uint32_t chunk = 0; chunk < chunks(); ++chunk) {
    if (states_[chunk] != State::kRunning && states_[chunk] != State::kDone) continue;
    if (std::ranges::find(not_counted, chunk) == not_counted.end()) started.push_back(chunk);
  }
  return code_->repairable(window_.window.wanted, started);
}

Status WindowChunks::too_few(std::string before) const {
  std::string reasons = std::move(before);
  const auto add = [&reasons](const std::string& reason) {
    reasons += (reasons.empty() ? "" : "; ") + reason;
  };
  if (!failures_.empty()) add(failures_);
  for (const proto::ChunkPlacement& place : window_.stripe->chunks()) {
    if (states_[place.index()] == State::kIdle)
      add(fmt::format("chunk {} is nowhere to be read", place.index()));
  }
  const erasure::Policy& policy = window_.policy;
  const std::string too_few = policy.local > 0 ? "too few" : fmt::format("fewer than {}", policy.k);
  return {Code::kUnavailable, fmt::format("stripe {}: {} of {} chunks can be read: {}",
                                          window_.stripe->stripe_id(), too_few, policy.chunks(), reasons)};
}

// ---- bytes

std::span<const std::byte> WindowChunks::part(uint32_t chunk, size_t index) const {
  if (!put_[chunk].empty()) return put_[chunk][index].span();
  return fetches_[chunk] ? fetches_[chunk]->part(index) : std::span<const std::byte>{};
}

std::vector<std::span<const std::byte>> WindowChunks::bytes_of(uint32_t chunk, uint64_t begin,
                                                               uint64_t end) const {
  std::vector<std::span<const std::byte>> ranges;
  const uint64_t window_begin = window_.window.chunk_begin;
  const uint64_t until = std::min(end - window_begin, window_.chunk_bytes(chunk));
  for (uint64_t at = begin - window_begin; at < until;) {
    const size_t in_buffer = at % Memory::kBufferBytes;
    const size_t bytes = std::min<uint64_t>(until - at, Memory::kBufferBytes - in_buffer);
    ranges.push_back(part(chunk, at / Memory::kBufferBytes).subspan(in_buffer, bytes));
    at += bytes;
  }
  return ranges;
}

size_t WindowChunks::chunks_fetched() const {
  return static_cast<size_t>(
      std::ranges::count_if(fetches_, [](const auto& fetch) { return fetch && fetch->ok(); }));
}

uint64_t WindowChunks::bytes_fetched() const {
  uint64_t sum = 0;
  for (uint32_t chunk = 0; chunk < chunks(); ++chunk) {
    if (fetches_[chunk] && fetches_[chunk]->ok()) sum += window_.chunk_bytes(chunk);
  }
  return sum;
}

}  // namespace kintsugi::client
