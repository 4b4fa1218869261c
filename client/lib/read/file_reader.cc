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
constexpr uint64_t kMaxChunkBytes = 2 << 20;  ///< of one chunk in one window
constexpr int kMaxFreshLocations = 4;         ///< times a window is tried again
constexpr Duration kBeforeFreshLocations = 200ms;

}  // namespace

FileReader::FileReader(Core& core, Context context, std::string path, Sink& sink, ReadOptions options)
    : core_(core),
      context_(context),
      path_(std::move(path)),
      sink_(sink),
      options_(std::move(options)),
      changed_(core.runtime),
      tasks_(core.runtime) {}

asio::awaitable<Result<FileReader::Page>> FileReader::locate(uint64_t offset, uint64_t length) {
  proto::OpenReadRequest request;
  request.set_path(path_);
  request.set_offset(offset);
  request.set_length(length);
  auto answer = co_await core_.meta.call<proto::OpenReadResponse>(context_, rpc::Method::kOpenRead, request);
  if (!answer) co_return answer.error();
  co_return std::make_shared<const proto::OpenReadResponse>(std::move(*answer));
}

asio::awaitable<Result<proto::Attributes>> FileReader::open() {
  KINTSUGI_CO_ASSIGN(page_, co_await locate(options_.offset, options_.length));
  const proto::Attributes& attributes = page_->attributes();
  if (attributes.type() == proto::Attributes::DIRECTORY) {
    co_return Status{Code::kIsDirectory, fmt::format("{}: is a directory", path_)};
  }
  begin_ = planned_ = std::min(options_.offset, attributes.size());
  const uint64_t left = attributes.size() - begin_;
  end_ = begin_ + (options_.length == 0 ? left : std::min(options_.length, left));
  co_return attributes;
}

asio::awaitable<Status> FileReader::run() {
  sight::Module module(context_, kReadFile, {static_cast<double>(end_ - begin_)});
  context_ = module.context();
  Status status = co_await read_to_end();
  // Windows that will not be delivered are waited for: each is bounded by its own deadlines.
  for (const auto& window : in_flight_) {
    while (!window->result)
      co_await changed_.wait();
  }
  co_await tasks_.join();
  in_flight_.clear();
  co_return module.finish(status);
}

asio::awaitable<Status> FileReader::read_to_end() {
  while (true) {
    while (in_flight_.size() < kMaxInFlight) {
      KINTSUGI_CO_ASSIGN(const bool started, co_await start_next());
      if (!started) break;
    }
    if (in_flight_.empty()) co_return Status{};
    KINTSUGI_CO_TRY(co_await deliver());
  }
}

uint64_t FileReader::window_bytes(const erasure::Policy& policy) const {
  const uint64_t buffers = core_.memory.buffers() / (kWindowsAtOnce * policy.chunks());
  return std::clamp<uint64_t>(buffers * Memory::kBufferBytes, Memory::kBufferBytes, kMaxChunkBytes);
}

Result<FileReader::Extent> FileReader::plan_extent(const proto::Extent& extent) const {
  const auto& stripes = page_->stripes();
  const auto stripe = std::find_if(stripes.begin(), stripes.end(), [&](const proto::Stripe& candidate) {
    return candidate.stripe_id() == extent.stripe_id();
  });
  if (stripe == stripes.end())
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
  return Extent{&*stripe, policy, from, stripe_offset,
                WindowPlan(policy, stripe->length(), stripe_offset, to - from, window_bytes(policy))};
}

asio::awaitable<Status> FileReader::next_extent() {
  if (next_in_page_ == page_->extents_size()) {
    if (page_->extents_size() == 0)
      co_return Status{Code::kInternal, fmt::format("{} ends before its size", path_)};
    KINTSUGI_CO_ASSIGN(page_, co_await locate(planned_, end_ - planned_));
    next_in_page_ = 0;
    if (page_->extents_size() == 0)
      co_return Status{Code::kConflict, fmt::format("{} changed while it was read", path_)};
  }
  KINTSUGI_CO_ASSIGN(extent_, plan_extent(page_->extents(next_in_page_)));
  ++next_in_page_;
  co_return Status{};
}

asio::awaitable<Result<bool>> FileReader::start_next() {
  if (planned_ == end_) co_return false;
  if (!extent_ || extent_->plan.done()) KINTSUGI_CO_TRY(co_await next_extent());
  WindowPlan ahead = extent_->plan;
  Window window = ahead.next();
  const size_t buffers = WindowReader::buffers_needed(extent_->policy, window);
  // Only a reader that holds nothing may wait for memory.
  Lease lease = core_.memory.try_reserve(buffers);
  if (lease.count() == 0) {
    if (!in_flight_.empty()) co_return false;
    KINTSUGI_CO_ASSIGN(lease, co_await core_.memory.reserve(buffers, core_.now() + kMemoryLimit));
  }
  extent_->plan = ahead;
  auto started = std::make_unique<InFlight>();
  started->page = page_;
  started->file_offset = planned_;
  planned_ += window.bytes;
  started->reader = std::make_unique<WindowReader>(core_, context_, *extent_->stripe, extent_->policy,
                                                   std::move(window), std::move(lease));
  in_flight_.push_back(std::move(started));
  tasks_.spawn(run_window(in_flight_.back().get()));
  co_return true;
}

asio::awaitable<void> FileReader::run_window(InFlight* window) {
  window->result = co_await window->reader->run();
  changed_.notify_all();
}

asio::awaitable<Status> FileReader::deliver() {
  InFlight& front = *in_flight_.front();
  while (!front.result)
    co_await changed_.wait();
  if (!front.result->ok()) KINTSUGI_CO_TRY(co_await read_again(front));
  const uint64_t bytes = front.reader->window().bytes;
  sight::Module module(context_, kWriteSink, {static_cast<double>(bytes)});
  const auto ranges = front.reader->bytes();
  Status written = co_await sink_.write(front.file_offset, ranges);
  if (!written.ok()) co_return module.finish(written);
  if (options_.progress) options_.progress(bytes);
  in_flight_.pop_front();
  co_return Status{};
}

asio::awaitable<Status> FileReader::read_again(InFlight& failed) {
  const Window window = failed.reader->window();
  for (int attempt = 0; attempt < kMaxFreshLocations; ++attempt) {
    const Code code = failed.result->code();
    if (code != Code::kUnavailable && code != Code::kDeadlineExceeded) break;
    log::debug("{}: reading again: {}", path_, failed.result->to_string());
    const bool slept = co_await core_.background.sleep_for((1 << attempt) * kBeforeFreshLocations);
    if (!slept) co_return Status{Code::kCancelled, "the client is stopping"};
    KINTSUGI_CO_ASSIGN(Page page, co_await locate(failed.file_offset, window.bytes));
    if (page->stripes_size() == 0) break;
    const proto::Stripe& stripe = page->stripes(0);
    KINTSUGI_CO_ASSIGN(const erasure::Policy policy, erasure::Policy::parse(stripe.policy()));
    const proto::Extent& extent = page->extents(0);
    const uint64_t stripe_offset = extent.stripe_offset() + (failed.file_offset - extent.file_offset());
    if (stripe_offset != window.stripe_offset || stripe.chunks_size() != static_cast<int>(policy.chunks())) {
      co_return Status{Code::kConflict, fmt::format("{} changed while it was read", path_)};
    }
    Lease lease = core_.memory.try_reserve(WindowReader::buffers_needed(policy, window));
    failed.reader.reset();  // its own buffers, of which there are as many, are enough
    if (lease.count() == 0) lease = core_.memory.try_reserve(WindowReader::buffers_needed(policy, window));
    if (lease.count() == 0) {
      KINTSUGI_CO_ASSIGN(lease, co_await core_.memory.reserve(WindowReader::buffers_needed(policy, window),
                                                              core_.now() + kMemoryLimit));
    }
    failed.page = page;
    failed.reader = std::make_unique<WindowReader>(core_, context_, stripe, policy, window, std::move(lease));
    failed.result = co_await failed.reader->run();
    if (failed.result->ok()) co_return Status{};
  }
  co_return failed.result->with_context(path_);
}

}  // namespace kintsugi::client
