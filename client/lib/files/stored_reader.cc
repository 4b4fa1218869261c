#include "client/lib/files/stored_reader.h"

#include <algorithm>
#include <cstring>

#include "client/lib/read/small_read.h"
#include "common/log/log.h"
#include "common/runtime/backoff.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kReadRange{"client.read_range", {"bytes"}};
constexpr sight::Site kReadAhead{"client.read_ahead", {"bytes"}};

constexpr uint64_t kDirectBytes = 4 << 20;  ///< bytes read at once when nothing was read ahead
constexpr uint64_t kUnitBytes = 12 << 20;   ///< largest unit of read-ahead
constexpr uint64_t kMaxAhead = 36 << 20;    ///< limit for the read-ahead of one reader
constexpr Duration kFirstBackoff = 50ms, kLongestBackoff = 2s;

}  // namespace

StoredReader::StoredReader(FilesShared& shared, FileOwner& owner, uint64_t inode)
    : shared_(shared),
      owner_(owner),
      inode_(inode),
      locator_(shared, owner, inode),
      changed_(shared.resources.runtime) {}

StoredReader::~StoredReader() {
  while (!units_.empty())
    drop(*units_.front());
}

// ---- reading

asio::awaitable<Status> StoredReader::read(Context context, uint64_t offset, std::span<std::byte> into) {
  uint64_t done = 0;
  while (done < into.size()) {
    const uint64_t at = offset + done;
    const auto unit = unit_at(at);
    if (unit) {
      unit->used = shared_.resources.now();
      while (!unit->result && !unit->dropped) {
        const runtime::Wait wait(context, runtime::WaitKind::kSibling, 0, unit->span);
        co_await changed_.wait();
      }
      if (unit->result && unit->result->ok() && !unit->dropped) {
        const uint64_t bytes = std::min<uint64_t>(into.size() - done, unit->end - at);
        unit->read->copy(at, into.subspan(done, bytes));
        done += bytes;
        continue;
      }
      drop(*unit);
    }
    uint64_t bytes = std::min<uint64_t>(into.size() - done, kDirectBytes);
    for (const auto& other : units_) {
      if (other->begin > at) bytes = std::min(bytes, other->begin - at);
    }
    std::span<std::byte> part = into.subspan(done, bytes);
    KINTSUGI_CO_TRY(co_await read_now(context, at, part));
    done += part.size();
  }
  co_return Status{};
}

asio::awaitable<Status> StoredReader::read_now(Context context, uint64_t offset, std::span<std::byte>& into) {
  const TimePoint give_up = shared_.give_up();
  runtime::Backoff backoff(shared_.resources.runtime.random, kFirstBackoff, kLongestBackoff);
  for (int attempt = 0;; ++attempt) {
    const Status status = co_await try_read(context, offset, into);
    switch (status.code()) {
      case Code::kUnavailable:
      case Code::kDeadlineExceeded:
      case Code::kNotFound:  // the stripe is gone, the file has others now
      case Code::kConflict:
      case Code::kCorrupt: break;
      default: co_return status;
    }
    log::debug("inode {} at {}: reading again: {}", inode_, offset, status.to_string());
    locator_.forget(offset, offset + into.size());
    const TimePoint now = shared_.resources.now();
    if (attempt == 0 && now + kFirstBackoff < give_up) continue;
    const auto pause = backoff.next_before(now, give_up);
    if (!pause) co_return status.with_context(fmt::format("inode {} at {}", inode_, offset));
    const runtime::Wait wait(context, runtime::WaitKind::kTimer);
    if (!co_await shared_.resources.background.sleep_for(*pause))
      co_return Status{Code::kCancelled, "the client is stopping"};
  }
}

asio::awaitable<Status> StoredReader::try_read(Context context, uint64_t offset, std::span<std::byte>& into) {
  // A read uses what one answer of the metaserver covers before it asks for more, so that clients that change the file
  // all the time cannot hold it up.
  KINTSUGI_CO_TRY(co_await locator_.locate(context, offset, offset + 1));
  into = into.first(std::min<uint64_t>(into.size(), locator_.known_from(offset) - offset));
  const uint64_t end = offset + into.size();
  std::vector<LocatedExtent> extents = locator_.find(offset, end);
  if (extents.empty()) {
    std::memset(into.data(), 0, into.size());
    co_return Status{};
  }
  const sight::Module module(context, kReadRange, {static_cast<double>(into.size())});
  if (extents.size() == 1 && extents.front().offset <= offset && extents.front().end() >= end) {
    const LocatedExtent part = extents.front().clipped(offset, end);
    if (part.stripe->is_inline()) {
      std::memcpy(into.data(), part.stripe->inline_data().data() + part.stripe_offset, into.size());
      co_return Status{};
    }
    if (is_small_read(shared_.resources, part)) {
      if (shared_.packed.copy(part, into)) co_return Status{};
      ++shared_.counts.windows_read;
      const Status direct = co_await read_packed(module.context(), part, into);
      if (direct.ok()) shared_.traffic.fetched_bytes += into.size();
      if (direct.ok()) co_return direct;
      // Others chunks of the stripe have it, too.
      log::debug("inode {} at {}: {}", inode_, offset, direct.to_string());
    }
  }
  shared_.traffic.fetched_bytes += into.size();
  // Not in the frame of this coroutine, which most small reads leave before.
  const auto read =
      std::make_unique<RangeRead>(shared_.resources, module.context(), offset, end, std::move(extents));
  shared_.counts.windows_read += read->windows();
  Lease lease = shared_.resources.memory.try_reserve(read->least_buffers());
  if (lease.count() == 0) {
    drop_idle(TimePoint::max());
    const runtime::Wait wait(module.context(), runtime::WaitKind::kResource,
                             runtime::named_target(context, "memory"));
    KINTSUGI_CO_ASSIGN(lease, co_await shared_.resources.memory.reserve(
                                  read->least_buffers(), shared_.resources.now() + kMemoryLimit));
  }
  {
    const runtime::Wait wait(module.context(), runtime::WaitKind::kJoin);
    KINTSUGI_CO_TRY(co_await read->run(std::move(lease)));
  }
  read->copy(offset, into);
  co_return Status{};
}

asio::awaitable<Status> StoredReader::read_packed(Context context, LocatedExtent part,
                                                  std::span<std::byte> into) {
  LocatedExtent wide = shared_.packed.widened(part);
  if (wide.length == part.length || !is_small_read(shared_.resources, wide))
    co_return co_await small_read(shared_.resources, context, part, into);
  std::vector<std::byte> bytes(wide.length);
  KINTSUGI_CO_TRY(co_await small_read(shared_.resources, context, wide, bytes));
  std::memcpy(into.data(), bytes.data(), into.size());
  shared_.packed.keep(wide, std::move(bytes));
  co_return Status{};
}

// ---- reading ahead

std::shared_ptr<StoredReader::Unit> StoredReader::unit_at(uint64_t offset) const {
  for (const auto& unit : units_) {
    if (offset >= unit->begin && offset < unit->end) return unit;
  }
  return nullptr;
}

uint64_t StoredReader::unit_end(uint64_t begin, uint64_t bytes, uint64_t size) const {
  uint64_t end = std::min(size, begin + bytes);
  if (end == size) return end;
  // Extents that are not known are found out later; this is only about whole rows.
  const std::vector<LocatedExtent> last = locator_.find(end - 1, end);
  if (last.empty()) return end;
  const LocatedExtent& extent = last.front();
  if (extent.stripe->is_inline()) return end;
  const uint64_t row = uint64_t{extent.stripe->policy.k} * extent.stripe->policy.cell_bytes;
  const uint64_t in_stripe = extent.stripe_offset + (end - extent.offset);
  const uint64_t back = in_stripe % row;
  if (end - back > begin && end - back > extent.offset && end - begin - back >= bytes / 4) return end - back;
  return std::min({size, extent.end(), end + (row - back)});
}

void StoredReader::note_read(uint64_t offset, uint64_t length, uint64_t size) {
  if (shared_.options.read_ahead_bytes == 0) return;
  ReadStreams::Stream* stream = streams_.note(offset, length);
  if (!stream) return;
  if (stream->ahead_bytes == 0 || stream->next + stream->ahead_bytes / 2 >= stream->ahead_to)
    ReadStreams::widen(*stream, kMaxAhead);
  stream->ahead_to = std::max(stream->ahead_to, stream->next);
  drop_passed();
  while (stream->ahead_to < size && stream->ahead_to < stream->next + stream->ahead_bytes) {
    uint64_t begin = stream->ahead_to;
    if (const auto there = unit_at(begin)) {
      stream->ahead_to = there->end;
      continue;
    }
    const uint64_t unit_bytes =
        std::min(kUnitBytes, std::max<uint64_t>(stream->ahead_bytes / 2, ReadStreams::kFirstAhead));
    if (shared_.read_ahead_bytes + unit_bytes > shared_.options.read_ahead_bytes) break;
    auto unit = std::make_shared<Unit>();
    unit->begin = begin;
    unit->end = unit_end(begin, unit_bytes, size);
    for (const auto& other : units_) {
      if (other->begin > begin) unit->end = std::min(unit->end, other->begin);
    }
    unit->used = shared_.resources.now();
    units_.push_back(unit);
    shared_.read_ahead_bytes += unit->end - unit->begin;
    stream->ahead_to = unit->end;
    shared_.tasks.spawn(read_unit(owner_.pin(), unit));
  }
  locator_.locate_after(stream->ahead_to, size);
}

asio::awaitable<void> StoredReader::read_unit(std::shared_ptr<void> owner, std::shared_ptr<Unit> unit) {
  (void)owner;
  Status status{Code::kCancelled, "dropped"};
  if (!unit->dropped) {
    sight::BackgroundTask task(shared_.context(), kReadAhead, {static_cast<double>(unit->end - unit->begin)});
    unit->span = task.context().trace.span_id;
    changed_.notify_all();  // waiting readers now name this region as the target of their wait
    status = task.finish(co_await read_unit_now(task.context(), *unit));
  }
  if (!status.ok() || unit->dropped) unit->read.reset();
  unit->result = status;
  if (!status.ok()) drop(*unit);
  changed_.notify_all();
}

asio::awaitable<Status> StoredReader::read_unit_now(Context context, Unit& unit) {
  KINTSUGI_CO_TRY(co_await locator_.locate(context, unit.begin, unit.end));
  if (unit.dropped) co_return Status{Code::kCancelled, "dropped"};
  auto read = std::make_unique<RangeRead>(shared_.resources, context, unit.begin, unit.end,
                                          locator_.find(unit.begin, unit.end));
  shared_.counts.windows_read += read->windows();
  Lease lease = shared_.resources.memory.try_reserve(read->least_buffers());
  if (lease.count() == 0) co_return Status{Code::kLimitExceeded, "no memory to read ahead"};
  unit.read = std::move(read);
  const runtime::Wait wait(context, runtime::WaitKind::kJoin);
  co_return co_await unit.read->run(std::move(lease));
}

void StoredReader::drop(Unit& unit) {
  if (std::exchange(unit.dropped, true)) return;
  shared_.read_ahead_bytes -= unit.end - unit.begin;
  if (unit.result) unit.read.reset();
  std::erase_if(units_, [&unit](const auto& one) { return one.get() == &unit; });
  changed_.notify_all();
}

void StoredReader::drop_passed() {
  for (size_t i = 0; i < units_.size();) {
    if (streams_.passed(units_[i]->begin, units_[i]->end)) {
      drop(*std::shared_ptr(units_[i]));
    } else {
      ++i;
    }
  }
}

void StoredReader::drop_idle(TimePoint before) {
  for (size_t i = 0; i < units_.size();) {
    if (units_[i]->result && units_[i]->used < before) {
      drop(*std::shared_ptr(units_[i]));
    } else {
      ++i;
    }
  }
}

void StoredReader::forget(uint64_t begin, uint64_t end) {
  locator_.forget(begin, end);
  for (size_t i = 0; i < units_.size();) {
    if (units_[i]->begin < end && units_[i]->end > begin) {
      drop(*std::shared_ptr(units_[i]));
    } else {
      ++i;
    }
  }
}

}  // namespace kintsugi::client
