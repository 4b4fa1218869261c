#include "client/lib/read/file_reader.h"

#include <algorithm>

#include "client/lib/read/range_read.h"
#include "common/base/crc32c.h"
#include "common/log/log.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kReadFile{"client.read_file", {"bytes"}};
constexpr sight::Site kWriteSink{"client.write_sink", {"bytes"}};

constexpr size_t kMaxInFlight = 8;             ///< windows of one file
constexpr size_t kWindowsAtOnce = 3;           ///< memory is shared out for at least so many
constexpr uint64_t kMaxChunkBytes = 2 << 20;   ///< most of each chunk that a window takes
constexpr int kMaxFreshLocations = 4;          ///< times a window is tried again
constexpr uint64_t kLongExtent = 1 << 20;      ///< which has windows of its own
constexpr uint64_t kScatteredBytes = 4 << 20;  ///< read at a time of extents that are smaller
constexpr uint64_t kLeastHole = 32 << 10;      ///< smaller ones are read as zeros
constexpr Duration kBeforeFreshLocations = 200ms;

}  // namespace

FileReader::FileReader(Resources& resources, Context context, WhichFile file, Sink& sink, ReadOptions options)
    : resources_(resources),
      context_(context),
      file_(std::move(file)),
      sink_(sink),
      options_(std::move(options)),
      pipeline_(resources, kMaxInFlight, WindowReader::Trees::kAllowed) {}

Status FileReader::changed() const {
  return {Code::kConflict, fmt::format("{} changed while it was read", file_.name())};
}

asio::awaitable<Status> FileReader::locate(uint64_t offset, uint64_t end, Page& page) {
  proto::OpenReadRequest request;
  request.set_path(file_.path);
  request.set_inode(file_.inode);
  resources_.sign(request);
  request.set_offset(offset);
  request.set_length(end == UINT64_MAX ? 0 : end - offset);
  proto::OpenReadResponse answer;
  KINTSUGI_CO_TRY(co_await resources_.meta.call(context_, rpc::Method::kOpenRead, request, answer));
  resources_.health.told_slow(answer.slow_servers());
  if (opened_) {
    if (attributes_.inode() != answer.attributes().inode())
      co_return Status{Code::kConflict, fmt::format("{} was replaced while it was read", file_.name())};
  } else {
    attributes_ = answer.attributes();
  }
  auto extents = located_extents(answer);
  if (!extents) co_return extents.error().with_context(file_.name());
  page.extents = std::move(*extents);
  page.end = answer.more() && !page.extents.empty() ? page.extents.back().end() : end;
  if (page.end <= offset) co_return changed();
  co_return Status{};
}

asio::awaitable<Status> FileReader::open(proto::Attributes& attributes) {
  const uint64_t end = options_.length == 0 ? UINT64_MAX : options_.offset + options_.length;
  KINTSUGI_CO_TRY(co_await locate(options_.offset, end < options_.offset ? UINT64_MAX : end, page_));
  attributes = attributes_;
  if (attributes.type() == proto::Attributes::DIRECTORY) {
    co_return Status{Code::kIsDirectory, fmt::format("{} is a directory", file_.name())};
  }
  opened_ = true;
  planned_ = std::min(options_.offset, attributes.size());
  const uint64_t left = attributes.size() - planned_;
  end_ = planned_ + (options_.length == 0 ? left : std::min(options_.length, left));
  co_return Status{};
}

asio::awaitable<Status> FileReader::run() {
  sight::Module module(context_, kReadFile, {static_cast<double>(end_ - planned_)});
  context_ = module.context();
  co_return module.finish(co_await read_all());
}

asio::awaitable<Status> FileReader::read_all() {
  while (planned_ < end_) {
    const LocatedExtent* next = nullptr;
    KINTSUGI_CO_TRY(co_await find_next(next));
    const uint64_t data = next ? std::max(next->offset, planned_) : end_;
    if (data - planned_ >= kLeastHole || data >= end_) {
      KINTSUGI_CO_TRY(co_await give_hole(std::min(data, end_)));
    } else if (data == planned_ && is_long(*next)) {
      KINTSUGI_CO_TRY(co_await pipeline_.run(context_, *this));
    } else {
      KINTSUGI_CO_TRY(co_await read_scattered());
    }
  }
  co_return Status{};
}

bool FileReader::is_long(const LocatedExtent& extent) const {
  // A file of few bytes in one extent is read the same way whatever they are.
  if (extent.stripe->is_inline()) return false;
  return extent.length >= kLongExtent || (extent.offset <= planned_ && extent.end() >= end_);
}

asio::awaitable<Status> FileReader::find_next(const LocatedExtent*& next) {
  while (true) {
    while (next_in_page_ < page_.extents.size() && page_.extents[next_in_page_].end() <= planned_)
      ++next_in_page_;
    if (next_in_page_ < page_.extents.size()) {
      next = &page_.extents[next_in_page_];
      co_return Status{};
    }
    next = nullptr;
    if (page_.end >= end_) co_return Status{};
    Page page;
    KINTSUGI_CO_TRY(co_await locate(page_.end, end_, page));
    page_ = std::move(page);
    next_in_page_ = 0;
  }
}

// ---- long extents, by windows

uint64_t FileReader::window_bytes(const erasure::Policy& policy) const {
  const uint64_t buffers = resources_.memory.buffers() / (kWindowsAtOnce * policy.chunks());
  return std::clamp<uint64_t>(buffers * Memory::kBufferBytes, Memory::kBufferBytes, kMaxChunkBytes);
}

asio::awaitable<Status> FileReader::plan_next(std::optional<Planned>& next) {
  if (!plan_ || plan_->done()) {
    plan_.reset();
    if (planned_ == end_) co_return Status{};
    const LocatedExtent* extent = nullptr;
    KINTSUGI_CO_TRY(co_await find_next(extent));
    // What is no long extent is for read_all().
    if (!extent || extent->offset > planned_ || !is_long(*extent)) co_return Status{};
    const LocatedExtent rest = extent->clipped(planned_, end_);
    stripe_ = rest.stripe;
    plan_.emplace(stripe_->policy, stripe_->stripe.length(), rest.stripe_offset, rest.length,
                  window_bytes(stripe_->policy));
  }
  const Window window = plan_->next();
  next = Planned{planned_, {{stripe_, &stripe_->stripe}, stripe_->policy, window}};
  planned_ += window.bytes;
  co_return Status{};
}

asio::awaitable<Status> FileReader::take(WindowInFlight& window) {
  if (!window.result->ok()) KINTSUGI_CO_TRY(co_await read_again(window));
  const auto ranges = window.reader->bytes();
  co_return co_await give(window.offset, ranges);
}

asio::awaitable<bool> FileReader::may_try_again(const Status& failure, int attempt) {
  if (failure.code() != Code::kUnavailable && failure.code() != Code::kDeadlineExceeded) co_return false;
  log::debug("{}: reading again: {}", file_.name(), failure.to_string());
  co_return co_await resources_.background.sleep_for((1 << attempt) * kBeforeFreshLocations);
}

asio::awaitable<Status> FileReader::read_again(WindowInFlight& failed) {
  const StripeWindow before = failed.window;
  for (int attempt = 0; attempt < kMaxFreshLocations; ++attempt) {
    if (!co_await may_try_again(*failed.result, attempt)) break;
    Page page;
    KINTSUGI_CO_TRY(co_await locate(failed.offset, failed.offset + before.window.bytes, page));
    if (page.extents.empty() || page.extents.front().offset > failed.offset) co_return changed();
    const LocatedExtent& extent = page.extents.front();
    const uint64_t stripe_offset = extent.stripe_offset + (failed.offset - extent.offset);
    if (stripe_offset != before.window.stripe_offset || !(extent.stripe->policy == before.policy) ||
        extent.end() < failed.offset + before.window.bytes)
      co_return changed();
    co_await pipeline_.read_again(failed,
                                  {{extent.stripe, &extent.stripe->stripe}, before.policy, before.window});
    if (failed.result->ok()) co_return Status{};
  }
  if (resources_.background.stopping()) co_return Status{Code::kCancelled, "the client is stopping"};
  co_return failed.result->with_context(file_.name());
}

// ---- holes, and extents that are too small for windows of their own

asio::awaitable<Status> FileReader::give(uint64_t offset,
                                         std::span<const std::span<const std::byte>> ranges) {
  uint64_t bytes = 0;
  for (const auto& range : ranges)
    bytes += range.size();
  sight::Module module(context_, kWriteSink, {static_cast<double>(bytes)});
  delivered_ = true;
  const Status written = module.finish(co_await sink_.write(offset, ranges));
  if (written.ok() && options_.progress) options_.progress(bytes);
  co_return written;
}

asio::awaitable<Status> FileReader::give_hole(uint64_t end) {
  const uint64_t offset = planned_;
  planned_ = end;
  delivered_ = true;
  const Status left = co_await sink_.hole(offset, end - offset);
  if (left.ok() && options_.progress) options_.progress(end - offset);
  co_return left;
}

asio::awaitable<Status> FileReader::give_scattered(uint64_t begin, std::span<const std::byte> bytes,
                                                   const std::vector<DataRange>& data) {
  const uint64_t end = begin + bytes.size();
  planned_ = begin;
  uint64_t given = begin;  // what lies between it and planned_ is data, or a hole that is worth nothing
  const auto give_until = [&](uint64_t until) -> asio::awaitable<Status> {
    if (until == given) co_return Status{};
    const std::span<const std::byte> range = bytes.subspan(given - begin, until - given);
    const uint64_t offset = std::exchange(given, until);
    co_return co_await give(offset, {&range, 1});
  };
  for (const DataRange& range : data) {
    if (range.begin > planned_ && range.begin - planned_ >= kLeastHole) {
      KINTSUGI_CO_TRY(co_await give_until(planned_));
      KINTSUGI_CO_TRY(co_await give_hole(range.begin));
      given = planned_;
    }
    planned_ = std::min(range.end, end);
  }
  KINTSUGI_CO_TRY(co_await give_until(planned_));
  planned_ = end;
  co_return co_await give_until(end);
}

asio::awaitable<Status> FileReader::read_scattered() {
  const uint64_t begin = planned_;
  uint64_t end = std::min({end_, page_.end, begin + kScatteredBytes});
  for (int attempt = 0;; ++attempt) {
    std::vector<LocatedExtent> extents;
    std::vector<DataRange> data;
    for (const LocatedExtent& extent : page_.extents) {
      if (extent.end() <= begin || extent.offset >= end) continue;
      if (extent.offset > begin && is_long(extent)) {
        end = extent.offset;
        break;
      }
      extents.push_back(extent);
      data.push_back({std::max(extent.offset, begin), extent.end()});
    }
    RangeRead read(resources_, context_, begin, end, std::move(extents));
    KINTSUGI_CO_ASSIGN(Lease lease, co_await resources_.memory.reserve(read.buffers_needed(),
                                                                       resources_.now() + kMemoryLimit));
    const Status status = co_await read.run(std::move(lease));
    if (status.ok()) {
      std::vector<std::byte> bytes(end - begin);
      read.copy(begin, bytes);
      co_return co_await give_scattered(begin, bytes, data);
    }
    if (attempt == kMaxFreshLocations || !co_await may_try_again(status, attempt))
      co_return status.with_context(file_.name());
    planned_ = begin;
    KINTSUGI_CO_TRY(co_await locate(begin, end_, page_));
    next_in_page_ = 0;
    end = std::min(end, page_.end);
  }
}

}  // namespace kintsugi::client
