#include "client/lib/check/deep_check.h"

#include "client/lib/fsck_pages.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kDeepCheck{"client.deep_check", {}, {"chunks", "bytes"}};

std::optional<Damage> damage_of(const CheckedChunk& chunk, const proto::VerifiedChunk& found) {
  switch (found.verdict()) {
    case proto::VerifiedChunk::WHOLE: break;
    case proto::VerifiedChunk::MISSING: return Damage::kMissing;
    case proto::VerifiedChunk::CORRUPT: return Damage::kCorrupt;
    default: return Damage::kUnreadable;
  }
  if (found.length() == chunk.length && found.crc() == chunk.crc) return std::nullopt;
  return Damage::kOther;
}

}  // namespace

DeepCheck::DeepCheck(Resources& resources, Context context, std::string path, DeepCheckOptions options)
    : resources_(resources),
      context_(context),
      path_(std::move(path)),
      options_(std::move(options)),
      repairs_(resources) {}

asio::awaitable<Status> DeepCheck::run(DeepCheckReport& report) {
  sight::Module module(context_, kDeepCheck);
  context_ = module.context();
  Status status = co_await count();
  if (status.ok()) status = co_await check_all();
  for (int round = 1; status.ok() && round < kRounds && !again_.empty(); ++round)
    status = co_await check_again();
  for (const Again& chunk : again_)
    count_unread(chunk);
  progress_.waiting = repairs_.settled() < repairs_.chunks();
  if (status.ok() && progress_.waiting) tell_progress();
  if (status.ok()) status = co_await repairs_.wait(context_, options_.patience, [this] { tell_progress(); });
  repairs_.report_to(report);
  report.chunks_read = progress_.chunks;
  report.bytes_read = progress_.bytes;
  report.chunks_missing = missing_;
  for (auto& [server, unread] : unread_)
    report.unread.push_back(std::move(unread));
  module.output(0, static_cast<double>(progress_.chunks));
  module.output(1, static_cast<double>(progress_.bytes));
  co_return module.finish(std::move(status));
}

void DeepCheck::tell_progress() {
  progress_.damaged = repairs_.chunks();
  progress_.settled = repairs_.settled();
  options_.progress(progress_);
}

asio::awaitable<Status> DeepCheck::count() {
  proto::FsckRequest request;
  request.set_path(path_);
  while (true) {
    proto::FsckResponse page;
    KINTSUGI_CO_TRY(co_await resources_.meta.call(context_, rpc::Method::kFsck, request, page));
    progress_.total_chunks += page.stored_chunks();
    progress_.total_bytes += page.stored_bytes();
    if (!page.more()) break;
    continue_after(page, request);
  }
  tell_progress();
  co_return Status{};
}

asio::awaitable<Status> DeepCheck::check_all() {
  CheckRound round(resources_, context_, options_.bytes_per_second, *this);
  Status added = co_await add_files(round);
  co_return co_await round.finish(std::move(added));
}

asio::awaitable<Status> DeepCheck::check_again() {
  {
    const sight::Wait wait(context_, sight::WaitKind::kTimer);
    if (!co_await resources_.background.sleep_for(kBetweenRounds))
      co_return Status{Code::kCancelled, "the client is stopping"};
  }
  CheckRound round(resources_, context_, options_.bytes_per_second, *this);
  Status added = co_await add_leftovers(round, std::exchange(again_, {}));
  co_return co_await round.finish(std::move(added));
}

asio::awaitable<Status> DeepCheck::add_files(CheckRound& round) {
  proto::FsckRequest request;
  request.set_path(path_);
  request.set_with_stripes(true);
  while (true) {
    proto::FsckResponse page;
    const TimePoint asked = resources_.now();
    KINTSUGI_CO_TRY(co_await resources_.meta.call(context_, rpc::Method::kFsck, request, page));
    std::shared_ptr<const std::string> path;
    for (const proto::FsckStripe& listed : page.listed()) {
      if (!path || *path != listed.path()) path = std::make_shared<const std::string>(listed.path());
      const StripeId stripe{listed.stripe().stripe_id()};
      for (const proto::ChunkPlacement& chunk : listed.stripe().chunks())
        KINTSUGI_CO_TRY(co_await add(round, stripe, chunk, asked, path));
    }
    if (!page.more()) co_return Status{};
    continue_after(page, request);
  }
}

asio::awaitable<Status> DeepCheck::add_leftovers(CheckRound& round, std::vector<Again> leftovers) {
  for (const Again& left : leftovers) {
    const TimePoint asked = resources_.now();
    const auto stripe = co_await look_up(resources_, context_, left.id.stripe);
    const bool gone = !stripe && stripe.error().code() == Code::kNotFound;
    if (!stripe && !gone) co_return stripe.error();
    const auto index = static_cast<int>(left.id.index);
    if (gone || index >= stripe->chunks_size()) continue;
    KINTSUGI_CO_TRY(co_await add(round, left.id.stripe, stripe->chunks(index), asked, left.path));
  }
  co_return Status{};
}

asio::awaitable<Status> DeepCheck::add(CheckRound& round, StripeId stripe, const proto::ChunkPlacement& chunk,
                                       TimePoint located, std::shared_ptr<const std::string> path) {
  if (chunk.length() == 0) co_return Status{};
  if (chunk.available()) co_return co_await round.add(checked_chunk(stripe, chunk, located, std::move(path)));
  if (chunk.address().empty()) {  // its server is dead, or the chunk has none
    ++missing_;
    co_return Status{};
  }
  repairs_.add({.id = {stripe, chunk.index()},
                .server = ServerId{chunk.server_id()},
                .server_name = chunk.server_name(),
                .path = *path,
                .damage = Damage::kMissing,
                .detail = "it was known to be lost"});
  co_return Status{};
}

void DeepCheck::read(uint64_t bytes) {
  progress_.bytes += bytes;
  tell_progress();
}

asio::awaitable<Status> DeepCheck::verified(const CheckedChunk& chunk, const proto::VerifiedChunk& found) {
  const std::optional<Damage> damage = damage_of(chunk, found);
  if (!damage) {
    ++progress_.chunks;
    tell_progress();
    co_return Status{};
  }
  std::string detail = found.detail();
  if (*damage == Damage::kOther)
    detail = fmt::format("{} bytes with CRC {:08x} instead of {} with {:08x}", found.length(), found.crc(),
                         chunk.length, chunk.crc);
  Status told = co_await found_damaged(chunk, *damage, std::move(detail));
  tell_progress();
  co_return told;
}

asio::awaitable<Status> DeepCheck::found_damaged(const CheckedChunk& chunk, Damage damage,
                                                 std::string detail) {
  // The file may have been removed since the chunk was located, and the chunk moved or repaired.
  const auto stripe = co_await look_up(resources_, context_, chunk.id.stripe);
  if (!stripe) co_return stripe.error().code() == Code::kNotFound ? Status{} : stripe.error();
  const auto index = static_cast<int>(chunk.id.index);
  const bool here = index < stripe->chunks_size() && stripe->chunks(index).server_id() == chunk.server.value;
  // What was read and is bad was damage, even if it is repaired by now. What was not read may have been moved.
  const bool proven = damage == Damage::kCorrupt || damage == Damage::kOther;
  if (!here && !proven) {
    unread(chunk, {Code::kConflict, "it is elsewhere now"});
    co_return Status{};
  }
  if (here && stripe->chunks(index).available()) KINTSUGI_CO_TRY(co_await report_lost(chunk, damage, detail));
  ++progress_.chunks;
  repairs_.add({.id = chunk.id,
                .server = chunk.server,
                .server_name = chunk.server_name,
                .path = *chunk.path,
                .damage = damage,
                .detail = std::move(detail)});
  co_return Status{};
}

asio::awaitable<Status> DeepCheck::report_lost(const CheckedChunk& chunk, Damage damage,
                                               const std::string& detail) {
  proto::ReportChunkRequest request;
  request.set_stripe_id(chunk.id.stripe.value);
  request.set_index(chunk.id.index);
  request.set_server_id(chunk.server.value);
  request.set_corrupt(damage == Damage::kCorrupt || damage == Damage::kOther);
  request.set_detail(detail);
  proto::Empty nothing;
  // Answered once it counts as lost: from then on to be available means to be repaired.
  co_return co_await resources_.meta.call(context_, rpc::Method::kReportChunk, request, nothing);
}

void DeepCheck::unread(const CheckedChunk& chunk, const Status& why) {
  Again again{chunk.id, chunk.path, chunk.server, chunk.server_name, chunk.address, why};
  if (again_.size() < kMaxAgain) {
    again_.push_back(std::move(again));
  } else {
    count_unread(again);
  }
}

void DeepCheck::count_unread(const Again& chunk) {
  UnreadChunks& unread = unread_[chunk.server];
  unread.server = chunk.server;
  unread.server_name = chunk.server_name;
  unread.address = chunk.address;
  ++unread.chunks;
  unread.why = chunk.why;
}

}  // namespace kintsugi::client
