#include "client/lib/check/check_round.h"

#include <algorithm>

#include "monitoring/sight/module.h"

namespace kintsugi::client {

CheckRound::CheckRound(Resources& resources, Context context, uint64_t bytes_per_second, Observer& observer)
    : resources_(resources),
      context_(context),
      bytes_per_second_(bytes_per_second),
      observer_(observer),
      room_(resources.runtime),
      turns_(resources.runtime, kServersAtOnce),
      tasks_(resources.runtime) {}

asio::awaitable<Status> CheckRound::add(CheckedChunk chunk) {
  if (queued_ >= kMaxQueued) {
    const sight::Wait wait(context_, sight::WaitKind::kJoin, 0, 0, 1);
    while (queued_ >= kMaxQueued && error_.ok())
      co_await room_.wait();
  }
  if (!error_.ok()) co_return error_;
  Server& server = servers_[chunk.server];
  if (!server.given_up.ok()) {
    observer_.unread(chunk, server.given_up);
    co_return Status{};
  }
  ++queued_;
  server.queue.push_back(std::move(chunk));
  if (!std::exchange(server.working, true)) tasks_.spawn(work(server));
  co_return Status{};
}

asio::awaitable<Status> CheckRound::finish(Status added) {
  if (!added.ok()) end(std::move(added));
  const sight::Wait wait(context_, sight::WaitKind::kJoin);
  co_await tasks_.join();
  co_return error_;
}

void CheckRound::end(Status error) {
  if (error_.ok()) error_ = std::move(error);
  room_.notify_all();
}

void CheckRound::leave_queue(size_t chunks) {
  queued_ -= chunks;
  room_.notify_all();
}

asio::awaitable<void> CheckRound::work(Server& server) {
  while (!server.queue.empty() && error_.ok()) {
    (void)co_await turns_.acquire(TimePoint::max());
    Status checked = error_.ok() ? co_await check_some(server) : Status{};
    turns_.release();
    if (!checked.ok()) end(std::move(checked));
    if (server.failures == 0 || !server.given_up.ok()) continue;
    if (!co_await resources_.background.sleep_for(kPause)) end({Code::kCancelled, "the client is stopping"});
  }
  server.working = false;
}

std::vector<CheckedChunk> CheckRound::take(Server& server) const {
  uint64_t room = kMaxBytesOfACall;
  if (bytes_per_second_ > 0)
    room = std::min(room, bytes_per_second_ * static_cast<uint64_t>(kRatedCall / std::chrono::seconds(1)));
  std::vector<CheckedChunk> chunks;
  while (!server.queue.empty() && chunks.size() < kMaxChunksOfACall) {
    const uint64_t bytes = server.queue.front().length;
    if (!chunks.empty() && bytes > room) break;
    room -= std::min(room, bytes);
    chunks.push_back(std::move(server.queue.front()));
    server.queue.pop_front();
  }
  return chunks;
}

asio::awaitable<Status> CheckRound::refresh(std::vector<CheckedChunk>& chunks) {
  std::vector<CheckedChunk> here;
  for (CheckedChunk& chunk : chunks) {
    if (resources_.now() - chunk.located < kLocatedFor) {
      here.push_back(std::move(chunk));
      continue;
    }
    const TimePoint asked = resources_.now();
    const auto stripe = co_await look_up(resources_, context_, chunk.id.stripe);
    const bool gone = !stripe && stripe.error().code() == Code::kNotFound;
    if (!stripe && !gone) co_return stripe.error();
    const auto index = static_cast<int>(chunk.id.index);
    if (!gone && stripe->chunks_size() > index && stripe->chunks(index).server_id() == chunk.server.value) {
      here.push_back(checked_chunk(chunk.id.stripe, stripe->chunks(index), asked, std::move(chunk.path)));
    } else {
      leave_queue(1);
      observer_.unread(chunk, {Code::kConflict, "it is elsewhere now"});
    }
  }
  chunks = std::move(here);
  co_return Status{};
}

asio::awaitable<Status> CheckRound::check_some(Server& server) {
  std::vector<CheckedChunk> chunks = take(server);
  KINTSUGI_CO_TRY(co_await refresh(chunks));
  if (chunks.empty()) co_return Status{};
  VerifyEnd end = co_await verify_chunks(resources_, context_, chunks, bytes_per_second_, observer_);
  leave_queue(end.verified);
  KINTSUGI_CO_TRY(std::move(end.refused));
  if (resources_.background.stopping()) co_return Status{Code::kCancelled, "the client is stopping"};
  if (end.verified == chunks.size()) {
    server.failures = 0;
  } else {
    const std::span<const CheckedChunk> unanswered = std::span(chunks).subspan(end.verified);
    note_failure(server, unanswered, end.verified > 0, std::move(end.call));
  }
  co_return Status{};
}

void CheckRound::note_failure(Server& server, std::span<const CheckedChunk> unanswered, bool brought_some,
                              Status why) {
  server.queue.insert(server.queue.begin(), unanswered.begin(), unanswered.end());
  if (brought_some) server.failures = 0;
  if (++server.failures < kAttempts) return;
  server.given_up = std::move(why);
  for (const CheckedChunk& chunk : server.queue)
    observer_.unread(chunk, server.given_up);
  leave_queue(server.queue.size());
  server.queue.clear();
}

}  // namespace kintsugi::client
