#include "client/lib/read/file_reader.h"

#include <algorithm>
#include <array>

#include "common/log/log.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kReadFile{"client.read_file", {"bytes"}};
constexpr sight::Site kWriteSink{"client.write_sink", {"bytes"}};

constexpr size_t kMaxInFlight = 8;             ///< pieces of one file
constexpr int kMaxFreshLocations = 4;          ///< times a piece is tried again
constexpr uint64_t kLongExtent = 1 << 20;      ///< longer extents are read window by window
constexpr uint64_t kScatteredBytes = 4 << 20;  ///< most of extents that are smaller in one piece
constexpr uint64_t kLeastHole = 32 << 10;      ///< smaller ones are read as zeros
constexpr Duration kBeforeFreshLocations = 200ms;

bool is_long(const LocatedExtent& extent) {
  return extent.length >= kLongExtent && !extent.stripe->is_inline();
}

}  // namespace

FileReader::FileReader(Resources& resources, Context context, WhichFile file, Sink& sink, ReadOptions options)
    : resources_(resources),
      context_(context),
      file_(std::move(file)),
      sink_(sink),
      options_(std::move(options)) {}

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
  page.file_bytes = answer.attributes().size();
  page.modified_ns = answer.attributes().modified_ns();
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
  ReadPipeline<RangeRead> pipeline(resources_, kMaxInFlight);
  co_return module.finish(co_await pipeline.run(context_, *this));
}

asio::awaitable<Status> FileReader::plan_next(std::unique_ptr<RangeRead>& next) {
  if (planned_ == end_) co_return Status{};
  if (planned_ >= page_.end) {
    KINTSUGI_CO_TRY(co_await locate(page_.end, end_, page_));
    // The file was truncated meanwhile: bytes behind its new end would be read as zeros.
    if (page_.file_bytes < end_) co_return changed();
  }
  const auto rest = std::ranges::upper_bound(page_.extents, planned_, {}, &LocatedExtent::end);
  const uint64_t begin = std::exchange(planned_, piece_end({rest, page_.extents.end()}));
  const auto rest_end = std::ranges::lower_bound(page_.extents, planned_, {}, &LocatedExtent::offset);
  next = std::make_unique<RangeRead>(resources_, context_, begin, planned_,
                                     std::vector<LocatedExtent>(rest, rest_end));
  co_return Status{};
}

uint64_t FileReader::piece_end(std::span<const LocatedExtent> rest) const {
  const uint64_t end = std::min(end_, page_.end);
  if (rest.empty() || rest.front().offset >= std::min(end, planned_ + kLeastHole))
    return rest.empty() ? end : std::min(end, rest.front().offset);
  if (is_long(rest.front()) && rest.front().offset <= planned_)
    return planned_ + RangeRead::first_window(resources_.memory, rest.front().clipped(planned_, end));
  const uint64_t farthest = std::min(end, planned_ + kScatteredBytes);
  const auto next_long = std::ranges::find_if(rest, is_long);
  return next_long == rest.end() ? farthest : std::min(farthest, next_long->offset);
}

asio::awaitable<Status> FileReader::take(Piece& piece) {
  if (!piece.result->ok()) KINTSUGI_CO_TRY(co_await read_again(piece));
  co_return co_await give(*piece.read);
}

asio::awaitable<bool> FileReader::may_try_again(const Status& failure, int attempt) {
  if (failure.code() != Code::kUnavailable && failure.code() != Code::kDeadlineExceeded) co_return false;
  log::debug("{}: reading again: {}", file_.name(), failure.to_string());
  co_return co_await resources_.background.sleep_for((1 << attempt) * kBeforeFreshLocations);
}

asio::awaitable<Status> FileReader::read_again(Piece& failed) {
  const uint64_t begin = failed.read->begin(), end = failed.read->end();
  for (int attempt = 0; attempt < kMaxFreshLocations; ++attempt) {
    if (!co_await may_try_again(*failed.result, attempt)) break;
    Page page;
    KINTSUGI_CO_TRY(co_await locate(begin, end, page));
    // What was written anew since must not be mixed with what was read before. A compaction leaves the time as it is.
    const bool is_older = page.modified_ns != attributes_.modified_ns();
    if (is_older || page.extents.empty() || page.end < end || page.file_bytes < end) co_return changed();
    std::erase_if(page.extents,
                  [=](const auto& extent) { return extent.end() <= begin || extent.offset >= end; });
    Lease lease = failed.read->take_lease();
    failed.read = std::make_unique<RangeRead>(resources_, context_, begin, end, std::move(page.extents));
    if (const size_t needed = failed.read->buffers_needed(); lease.count() < needed) {
      // It lies otherwise now. Not waited for: others that wait may have the rest of the memory.
      lease = {};
      lease = resources_.memory.try_reserve(needed);
      if (lease.count() < needed) {
        failed.result = Status{Code::kUnavailable, "no memory to read it at its new place"};
        continue;
      }
    }
    const runtime::Wait wait(context_, runtime::WaitKind::kJoin);
    failed.result = co_await failed.read->run(std::move(lease));
    if (!failed.result->ok()) continue;
    page_.end = std::min(page_.end, planned_);  // the rest of it may have moved, too
    co_return Status{};
  }
  if (resources_.background.stopping()) co_return Status{Code::kCancelled, "the client is stopping"};
  co_return failed.result->with_context(file_.name());
}

asio::awaitable<Status> FileReader::give(const RangeRead& read) {
  static constexpr std::array<std::byte, kLeastHole> kZeros{};
  std::vector<std::span<const std::byte>> data;
  uint64_t begin = read.begin();  // of the data
  for (const Stretch& stretch : read.stretches(read.begin(), read.end())) {
    if (stretch.is_hole() && stretch.length >= kLeastHole) {
      KINTSUGI_CO_TRY(co_await give_data(begin, std::exchange(data, {})));
      KINTSUGI_CO_TRY(co_await give_hole(stretch));
      begin = stretch.offset + stretch.length;
    } else {
      data.push_back(stretch.is_hole() ? std::span(kZeros).first(stretch.length) : stretch.bytes);
    }
  }
  co_return co_await give_data(begin, std::move(data));
}

asio::awaitable<Status> FileReader::give_data(uint64_t offset,
                                              std::vector<std::span<const std::byte>> ranges) {
  if (ranges.empty()) co_return Status{};
  uint64_t bytes = 0;
  for (const auto& range : ranges)
    bytes += range.size();
  sight::Module module(context_, kWriteSink, {static_cast<double>(bytes)});
  delivered_ = true;
  const Status written = module.finish(co_await sink_.write(offset, ranges));
  if (written.ok() && options_.progress) options_.progress(bytes);
  co_return written;
}

asio::awaitable<Status> FileReader::give_hole(const Stretch& hole) {
  delivered_ = true;
  const Status left = co_await sink_.hole(hole.offset, hole.length);
  if (left.ok() && options_.progress) options_.progress(hole.length);
  co_return left;
}

}  // namespace kintsugi::client
