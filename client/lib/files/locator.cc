#include "client/lib/files/locator.h"

#include <algorithm>

#include "common/base/math.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kLocateAhead{"client.locate_ahead"};

/// Locations are requested for aligned ranges of this size around the wanted bytes.
constexpr uint64_t kLocateAlign = 16 << 20, kLocateBytes = 64 << 20;
/// Where so many bytes are that follow what is being read ahead is to be known: they are read in more time than a call
/// takes.
constexpr uint64_t kLocatedAhead = 32 << 20;

/// Answers of one locate(), each for a page of extents or thrown away since the file changed.
constexpr int kMaxRounds = 1024;

}  // namespace

Locator::Locator(FilesShared& shared, FileOwner& owner, uint64_t inode)
    : shared_(shared),
      owner_(owner),
      inode_(inode),
      locations_(shared.locations),
      locating_(shared.resources.runtime, 1) {}

asio::awaitable<Status> Locator::locate(Context context, uint64_t begin, uint64_t end) {
  bool aligned = true;
  const Locations::Pin pin(locations_, begin, end);
  for (int round = 0; round < kMaxRounds; ++round) {
    const uint64_t known = locations_.known_from(begin, shared_.resources.now());
    if (known >= end) co_return Status{};
    {
      const runtime::Wait wait(context, runtime::WaitKind::kSibling, 0, locating_span_);
      KINTSUGI_CO_TRY(co_await locating_.acquire(TimePoint::max()));
    }
    locating_span_ = context.trace.span_id;
    const uint64_t still = locations_.known_from(begin, shared_.resources.now());
    if (still > known || still >= end) {  // another reader has asked in the meantime
      locating_.release();
      continue;
    }
    uint64_t from = known;
    if (aligned && known == begin) {
      from = round_down(begin, kLocateAlign);
      from = std::max(from, std::min(begin, locations_.known_from(from, shared_.resources.now())));
    }
    const uint64_t to = std::max(end, from + kLocateBytes);
    const uint64_t epoch = locations_.epoch();
    ++shared_.counts.locates;
    const auto answer = co_await shared_.calls.locate(context, inode_, from, to - from);
    locating_.release();
    if (!answer) co_return answer.error();
    shared_.resources.health.told_slow(answer->slow_servers());
    const auto extents = located_extents(*answer);
    if (!extents) co_return extents.error();
    // Behind the end of the file there is nothing.
    const bool cut = answer->more() && !extents->empty();
    const uint64_t learned = cut ? std::min(to, extents->back().end()) : to;
    uint64_t fresh_from = from, fresh_to = learned;
    // Something of it was written or truncated meanwhile: the answer may be from before, unless it has the newest
    // attributes.
    const bool is_fresh = locations_.still_fresh(epoch, known, std::min(end, learned), fresh_from, fresh_to);
    const bool is_newest = owner_.adopt(answer->attributes());
    if (learned <= known) {
      if (from == known) co_return Status{Code::kConflict, "the file changed while it was read"};
      aligned = false;  // a page of extents does not reach from the aligned start to here
      continue;
    }
    if (is_newest)
      locations_.learn(from, learned, *extents, shared_.resources.now());
    else if (is_fresh)
      locations_.learn(fresh_from, fresh_to, *extents, shared_.resources.now());
  }
  co_return Status{Code::kConflict, "the file keeps changing while it is read"};
}

void Locator::locate_after(uint64_t begin, uint64_t size) {
  const uint64_t known = locations_.known_from(begin, shared_.resources.now());
  if (locating_ahead_ || known >= std::min(size, begin + kLocatedAhead)) return;
  locating_ahead_ = true;
  shared_.tasks.spawn(locate_ahead(owner_.pin(), known));
}

asio::awaitable<void> Locator::locate_ahead(std::shared_ptr<void> owner, uint64_t offset) {
  (void)owner;
  sight::BackgroundTask task(shared_.context(), kLocateAhead);
  // One byte takes one call, which tells of as much as it can. Whoever comes there after an error asks again.
  (void)task.finish(co_await locate(task.context(), offset, offset + 1));
  locating_ahead_ = false;
}

void Locator::learn(const proto::OpenReadResponse& where, uint64_t size) {
  if (where.extents().empty()) return;
  const auto extents = located_extents(where);
  if (!extents || extents->empty()) return;  // the reader asks again and gets the error
  locations_.learn(0, where.more() ? extents->back().end() : size, *extents, shared_.resources.now());
}

void Locator::learn_written(const DirtyRanges& ranges) {
  for (const ByteRange& run : ranges.runs()) {
    const auto stored = std::make_shared<LocatedStripe>();
    std::string& bytes = *stored->stripe.mutable_inline_data();
    bytes.resize(run.length());
    std::vector<ByteRange> missing{run};
    ranges.overlay(run.begin, std::as_writable_bytes(std::span(bytes)), missing);
    stored->stripe.set_length(bytes.size());
    locations_.learn(run.begin, run.end, {{run.begin, run.length(), stored, 0}}, shared_.resources.now());
  }
}

asio::awaitable<Result<uint64_t>> Locator::next_data(Context context, uint64_t offset, uint64_t end) {
  while (offset < end) {
    KINTSUGI_CO_TRY(co_await locate(context, offset, offset + 1));
    const uint64_t until = std::min(end, locations_.known_from(offset, shared_.resources.now()));
    offset = locations_.next_data(offset, until);
    if (offset < until) break;
  }
  co_return std::min(offset, end);
}

asio::awaitable<Result<uint64_t>> Locator::next_hole(Context context, uint64_t offset, uint64_t end) {
  while (offset < end) {
    KINTSUGI_CO_TRY(co_await locate(context, offset, offset + 1));
    const uint64_t until = std::min(end, locations_.known_from(offset, shared_.resources.now()));
    offset = locations_.next_hole(offset, until);
    if (offset < until) break;
  }
  co_return std::min(offset, end);
}

}  // namespace kintsugi::client
