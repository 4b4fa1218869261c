#include "client/lib/read/file_reader.h"

#include <algorithm>

#include "common/base/crc32c.h"
#include "common/log/log.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kReadFile{"client.read_file", {"bytes"}};
constexpr sight::Site kWriteSink{"client.write_sink", {"bytes"}};

constexpr size_t kMaxInFlight = 8;            ///< windows of one file
constexpr size_t kWindowsAtOnce = 3;          ///< memory is shared out for at least so many
constexpr uint64_t kMaxChunkBytes = 2 << 20;  ///< most of each chunk that a window takes
constexpr int kMaxFreshLocations = 4;         ///< times a window is tried again
constexpr Duration kBeforeFreshLocations = 200ms;

}  // namespace

FileReader::FileReader(Resources& resources, Context context, std::string path, Sink& sink,
                       ReadOptions options)
    : resources_(resources),
      context_(context),
      path_(std::move(path)),
      sink_(sink),
      options_(std::move(options)),
      pipeline_(resources, kMaxInFlight, WindowReader::Trees::kAllowed) {}

asio::awaitable<Status> FileReader::locate(uint64_t offset, uint64_t length, Page& page) {
  proto::OpenReadRequest request;
  request.set_path(path_);
  request.set_offset(offset);
  request.set_length(length);
  const auto answer = std::make_shared<proto::OpenReadResponse>();
  KINTSUGI_CO_TRY(co_await resources_.meta.call(context_, rpc::Method::kOpenRead, request, *answer));
  if (page_ && page_->attributes().inode() != answer->attributes().inode())
    co_return Status{Code::kConflict, fmt::format("{} was replaced while it was read", path_)};
  page = answer;
  co_return Status{};
}

asio::awaitable<Status> FileReader::open(proto::Attributes& attributes) {
  KINTSUGI_CO_TRY(co_await locate(options_.offset, options_.length, page_));
  attributes = page_->attributes();
  if (attributes.type() == proto::Attributes::DIRECTORY) {
    co_return Status{Code::kIsDirectory, fmt::format("{} is a directory", path_)};
  }
  begin_ = planned_ = std::min(options_.offset, attributes.size());
  const uint64_t left = attributes.size() - begin_;
  end_ = begin_ + (options_.length == 0 ? left : std::min(options_.length, left));
  co_return Status{};
}

asio::awaitable<Status> FileReader::run() {
  sight::Module module(context_, kReadFile, {static_cast<double>(end_ - begin_)});
  context_ = module.context();
  co_return module.finish(co_await pipeline_.run(context_, *this));
}

uint64_t FileReader::window_bytes(const erasure::Policy& policy) const {
  const uint64_t buffers = resources_.memory.buffers() / (kWindowsAtOnce * policy.chunks());
  return std::clamp<uint64_t>(buffers * Memory::kBufferBytes, Memory::kBufferBytes, kMaxChunkBytes);
}

Result<FileReader::Extent> FileReader::plan_extent(const proto::Extent& extent) const {
  const auto stripe = std::ranges::find(page_->stripes(), extent.stripe_id(), &proto::Stripe::stripe_id);
  if (stripe == page_->stripes().end())
    return Status{Code::kInternal, "the metaserver named a stripe but did not say where it is"};
  KINTSUGI_ASSIGN(const erasure::Policy policy, erasure::Policy::parse(stripe->policy()));
  const uint64_t from = std::max(planned_, extent.file_offset()),
                 to = std::min(end_, extent.file_offset() + extent.length());
  const uint64_t stripe_offset = extent.stripe_offset() + (from - extent.file_offset());
  if (stripe->chunks_size() != static_cast<int>(policy.chunks()) || from != planned_ || from >= to ||
      stripe_offset + (to - from) > stripe->length()) {
    return Status{Code::kInternal,
                  fmt::format("extent at {} of {} makes no sense", extent.file_offset(), path_)};
  }
  return Extent{{page_, &*stripe},
                policy,
                from,
                stripe_offset,
                WindowPlan(policy, stripe->length(), stripe_offset, to - from, window_bytes(policy))};
}

asio::awaitable<Status> FileReader::next_extent() {
  if (next_in_page_ == page_->extents_size()) {
    if (page_->extents_size() == 0)
      co_return Status{Code::kInternal, fmt::format("{} ends before its size", path_)};
    KINTSUGI_CO_TRY(co_await locate(planned_, end_ - planned_, page_));
    next_in_page_ = 0;
    if (page_->extents_size() == 0)
      co_return Status{Code::kConflict, fmt::format("{} changed while it was read", path_)};
  }
  KINTSUGI_CO_ASSIGN(extent_, plan_extent(page_->extents(next_in_page_)));
  ++next_in_page_;
  co_return Status{};
}

asio::awaitable<Status> FileReader::plan_next(std::optional<Planned>& next) {
  if (planned_ == end_) co_return Status{};
  if (!extent_ || extent_->plan.done()) KINTSUGI_CO_TRY(co_await next_extent());
  const Window window = extent_->plan.next();
  next = Planned{planned_, {extent_->stripe, extent_->policy, window}};
  planned_ += window.bytes;
  co_return Status{};
}

asio::awaitable<Status> FileReader::take(WindowInFlight& window) {
  if (!window.result->ok()) KINTSUGI_CO_TRY(co_await read_again(window));
  const uint64_t bytes = window.window.window.bytes;
  sight::Module module(context_, kWriteSink, {static_cast<double>(bytes)});
  const auto ranges = window.reader->bytes();
  delivered_ = true;
  const Status written = module.finish(co_await sink_.write(window.offset, ranges));
  if (written.ok() && options_.progress) options_.progress(bytes);
  co_return written;
}

asio::awaitable<Status> FileReader::read_again(WindowInFlight& failed) {
  const StripeWindow before = failed.window;
  for (int attempt = 0; attempt < kMaxFreshLocations; ++attempt) {
    const Code code = failed.result->code();
    if (code != Code::kUnavailable && code != Code::kDeadlineExceeded) break;
    log::debug("{}: reading again: {}", path_, failed.result->to_string());
    if (!co_await resources_.background.sleep_for((1 << attempt) * kBeforeFreshLocations))
      co_return Status{Code::kCancelled, "the client is stopping"};
    Page page;
    KINTSUGI_CO_TRY(co_await locate(failed.offset, before.window.bytes, page));
    if (page->stripes_size() == 0) break;
    const proto::Stripe& stripe = page->stripes(0);
    KINTSUGI_CO_ASSIGN(const erasure::Policy policy, erasure::Policy::parse(stripe.policy()));
    const proto::Extent& extent = page->extents(0);
    const uint64_t stripe_offset = extent.stripe_offset() + (failed.offset - extent.file_offset());
    if (stripe_offset != before.window.stripe_offset || !(policy == before.policy) ||
        stripe.chunks_size() != static_cast<int>(policy.chunks())) {
      co_return Status{Code::kConflict, fmt::format("{} changed while it was read", path_)};
    }
    co_await pipeline_.read_again(failed, {{page, &stripe}, policy, before.window});
    if (failed.result->ok()) co_return Status{};
  }
  co_return failed.result->with_context(path_);
}

}  // namespace kintsugi::client
