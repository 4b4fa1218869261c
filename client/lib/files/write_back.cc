#include "client/lib/files/write_back.h"

#include <algorithm>

#include "common/base/assert.h"
#include "common/log/log.h"
#include "common/proto/inline_data.h"
#include "common/runtime/backoff.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr Duration kFirstPause = 100ms, kLongestPause = 2s;
constexpr Duration kRetryFailed = 10s;  ///< pause before failed layers are retried; sync retries at once
constexpr int kMaxRefusals = 3;  ///< how often an upload is begun again after the metaserver dropped it

constexpr sight::Site kWriteOut{"client.write_out", {"bytes"}};

}  // namespace

WriteBack::WriteBack(FilesShared& shared, FileOwner& owner, FileAttributes& attributes, StoredReader& reader,
                     FileHandles& handles)
    : shared_(shared),
      owner_(owner),
      attributes_(attributes),
      reader_(reader),
      handles_(handles),
      inode_(attributes.inode()),
      dirty_since_(shared, inode_),
      full_runs_(shared.buffers.total() * DirtyBuffers::kBufferBytes),
      changed_(shared.resources.runtime) {}

proto::Attributes WriteBack::attributes() const {
  proto::Attributes attributes = attributes_.known();
  attributes.set_size(size());
  dirty_.apply_to(attributes);
  // Bytes that are not written out yet will take room; whoever sees none takes the file for one big hole.
  const uint64_t will_use = std::min(attributes.used_bytes() + dirty_.bytes(), attributes.size());
  attributes.set_used_bytes(std::max(attributes.used_bytes(), will_use));
  return attributes;
}

// ---- taking

asio::awaitable<Status> WriteBack::write(Context context, uint64_t offset, std::span<const std::byte> bytes,
                                         bool kill_privileges) {
  for (size_t done = 0; done < bytes.size();) {
    if (!gone_.ok()) co_return gone_;
    size_t taken = 0;
    if (shared_.may_take(dirty_.buffers())) {
      const int64_t now = shared_.resources.runtime.clock.wall_now().time_since_epoch().count();
      const auto rest = bytes.subspan(done);
      taken = dirty_.newest().write(shared_.buffers, inode_, offset + done, rest, now, kill_privileges);
    }
    done += taken;
    if (taken > 0) {
      dirty_since_.set_now();
      advance();
    }
    if (shared_.buffers.free() < shared_.buffers.total() / 4) shared_.relieve();
    if (done < bytes.size()) KINTSUGI_CO_TRY(co_await wait_for_room(context));
  }
  co_return Status{};
}

asio::awaitable<Status> WriteBack::wait_for_room(Context context) {
  // What this file cannot write out is in the way of itself: that is an error to tell, after another attempt.
  if (dirty_.has_failed()) co_return co_await drain(context);
  co_return co_await shared_.wait_for_room(context);
}

void WriteBack::recover(DirtyPiece piece) {
  dirty_.recover(std::move(piece));
  dirty_since_.set_now();
}

// ---- freezing

void WriteBack::start_flush() {
  if (dirty_.has_failed() && shared_.resources.now() < retry_after_) return;
  retry_failed();
  if (dirty_.newest().empty()) return;
  want_all_ = true;
  advance();
}

void WriteBack::retry_failed() {
  if (!may_freeze()) return;
  for (const Layer& layer : dirty_.layers()) {
    if (!layer->under_way) start(layer);
  }
}

void WriteBack::advance() {
  DirtyRanges& newest = dirty_.newest();
  while (may_freeze() && !newest.empty() && dirty_.layers().size() < kMaxLayers) {
    if (dirty_.has_failed()) break;  // failed layers were retried above, in their order
    if (want_all_) {
      freeze(newest.split({0, UINT64_MAX}, kMaxLayerPieces));
      continue;
    }
    const ByteRange run = full_runs_.find(newest, attributes_.known().policy());
    if (run.length() == 0) break;
    freeze(newest.split(run, kMaxLayerPieces));
  }
  if (!newest.empty()) return;
  want_all_ = false;
  dirty_since_.clear();
  changed_.notify_all();
}

void WriteBack::freeze(DirtyRanges ranges) {
  full_runs_.look_anew();
  start(dirty_.add(std::move(ranges)));
}

void WriteBack::start(const Layer& layer) {
  layer->under_way = true;
  layer->failure = {};
  shared_.tasks.spawn(flush_layer(owner_.pin(), layer));
}

asio::awaitable<Status> WriteBack::drain(Context context) {
  retry_failed();
  if (!dirty_.newest().empty()) want_all_ = true;
  advance();
  const auto failure = [this]() -> const Status* {
    const auto& layers = dirty_.layers();
    return layers.empty() || layers.front()->under_way ? nullptr : &layers.front()->failure;
  };
  const uint64_t errors_before = handles_.errors();
  while (want_all_ && !failure())
    co_await wait_for_change(context, dirty_.writing_span());
  const uint64_t last = dirty_.last_number();
  while (!dirty_.layers().empty() && dirty_.layers().front()->number <= last && !failure())
    co_await wait_for_change(context, dirty_.writing_span());
  if (failure()) co_return *failure();
  // What was discarded is not durable either.
  co_return handles_.errors() == errors_before ? Status{} : handles_.last_error();
}

asio::awaitable<void> WriteBack::wait_for_change(Context context, uint64_t span) {
  const runtime::Wait wait(context, runtime::WaitKind::kSibling, 0, span);
  co_await changed_.wait();
}

// ---- uploading

asio::awaitable<void> WriteBack::flush_layer(std::shared_ptr<void> owner, Layer layer) {
  (void)owner;
  ++shared_.counts.flushes;
  Status status;
  {
    sight::Task task(shared_.context(), kWriteOut, {static_cast<double>(layer->ranges.bytes())});
    layer->span = task.context().trace.span_id;
    changed_.notify_all();  // waiting operations now name this region as the target of their wait
    status = task.finish(co_await write_out(task.context(), layer));
  }
  layer->span = 0;
  layer->under_way = false;
  layer->failure = status;
  if (!status.ok() && !layer->discarded) layer_failed(*layer, status);
  if (layer->discarded) dirty_.erase(layer);
  if (!handles_.any() && !shared_.handed_over) give_up_failed();
  advance();
  changed_.notify_all();
  shared_.freed();
  if (is_clean() && !handles_.any()) shared_.forget(inode_);
}

void WriteBack::layer_failed(DirtyLayer& layer, const Status& status) {
  retry_after_ = shared_.resources.now() + kRetryFailed;
  const bool gone = status.code() == Code::kStale;
  if (!gone && status.code() != Code::kLeaseLost) {
    log::info("inode {}: writing out failed: {}", inode_, status.to_string());
    if (dirty_.is_first(layer) && !std::exchange(layer.told, true)) handles_.record_error(status);
    return;
  }
  if (gone) {
    // Without handles its last name was removed: nobody will ask for the bytes.
    if (handles_.any())
      log::warning("inode {}: {} bytes are lost: the file is open here and gone at the metaserver", inode_,
                   dirty_.bytes());
    is_gone(status);
    shared_.session.leases().give_back(inode_);
  } else {
    lease_lost();  // the file still exists; only these bytes are lost
    shared_.leases.lost_by_answer(inode_);
  }
}

asio::awaitable<Status> WriteBack::write_out(Context context, Layer layer) {
  const TimePoint give_up = shared_.give_up();
  int refusals = 0;
  runtime::Backoff backoff(shared_.resources.runtime.random, kFirstPause, kLongestPause);
  while (true) {
    const Status status = co_await try_write_out(context, layer);
    if (status.ok() || layer->discarded) co_return status;
    // The metaserver may have given the upload up, as when it was not heard of for a while.
    const bool refused = status.code() == Code::kConflict || status.code() == Code::kNotFound;
    if (!is_without_answer(status) && !(refused && ++refusals <= kMaxRefusals)) co_return status;
    const auto pause = backoff.next_before(shared_.resources.now(), give_up);
    if (!pause) co_return status;
    log::debug("inode {}: writing out again: {}", inode_, status.to_string());
    const runtime::Wait wait(context, runtime::WaitKind::kTimer);
    if (!co_await shared_.tasks.sleep_for(*pause)) co_return status;
  }
}

asio::awaitable<Status> WriteBack::try_write_out(Context context, Layer layer) {
  if (layer->discarded) co_return Status{Code::kCancelled, "given up"};
  // The metaserver has to know the file of which it is asked for the code.
  if (attributes_.known().policy().empty()) KINTSUGI_CO_TRY(co_await shared_.unsent.flush(context));
  UploadMember member{inode_, attributes_.known().policy(), layer, &layer->ranges, &layer->discarded};
  if (layer->ranges.bytes() <= FlushGroups::kMaxMemberBytes)
    co_return co_await write_small(context, layer, std::move(member));
  {
    const runtime::Wait wait(context, runtime::WaitKind::kResource,
                             runtime::named_target(context, "turns to write out"));
    KINTSUGI_CO_TRY(co_await shared_.flush_turns.acquire(TimePoint::max()));
  }
  std::vector<UploadMember> alone;
  alone.push_back(std::move(member));
  GroupUpload upload(shared_.resources, context, std::move(alone));
  Status status = co_await upload.run();
  shared_.flush_turns.release();
  if (status.ok()) status = co_await wait_for_turn(context, *layer);
  if (!status.ok()) {
    co_await upload.abort();
    co_return status;
  }
  std::vector<size_t> told;
  proto::WriteExtentsRequest request = upload.request(told);
  shared_.counts.extents_written += static_cast<uint64_t>(request.extents_size());
  shared_.counts.stripes_written += upload.stripes();
  const uint64_t since = attributes_.heard();
  const auto written = co_await shared_.calls.write_extents(context, std::move(request));
  if (!written) {
    // A call without an answer may have been carried out, and then its stripes are in use.
    if (is_refused(written.error())) co_await upload.abort();
    co_return written.error();
  }
  if (!layer->discarded) layer_is_durable(*layer, written->attributes(), since);
  co_return Status{};
}

asio::awaitable<Status> WriteBack::write_small(Context context, Layer layer, UploadMember member) {
  KINTSUGI_CO_TRY(co_await wait_for_turn(context, *layer));
  const uint64_t since = attributes_.heard();
  KINTSUGI_CO_ASSIGN(const proto::Attributes attributes,
                     co_await shared_.groups.write(context, std::move(member)));
  if (!layer->discarded) layer_is_durable(*layer, attributes, since);
  co_return Status{};
}

asio::awaitable<Status> WriteBack::wait_for_turn(Context context, const DirtyLayer& layer) {
  while (!layer.discarded && !dirty_.is_first(layer)) {
    if (!dirty_.layers().front()->under_way)
      co_return Status{Code::kCancelled, "an earlier write to the file failed"};
    co_await wait_for_change(context, dirty_.writing_span());
  }
  co_return layer.discarded ? Status{Code::kCancelled, "given up"} : Status{};
}

void WriteBack::layer_is_durable(const DirtyLayer& layer, const proto::Attributes& attributes,
                                 uint64_t since) {
  KINTSUGI_ASSERT(dirty_.is_first(layer));
  owner_.take_answer(attributes, since);
  for (const ByteRange& run : layer.ranges.runs())
    reader_.forget(run.begin, run.end);
  // Databases read back at once what they have synced.
  if (layer.ranges.bytes() <= proto::kMaxInlineFileBytes && shared_.session.has_lease(inode_))
    reader_.locator().learn_written(layer.ranges);
  dirty_.pop_first();
  changed_.notify_all();
  shared_.freed();
}

// ---- for an operation on the whole file

void WriteBack::resume() {
  paused_ = false;
  advance();
  changed_.notify_all();
}

asio::awaitable<void> WriteBack::wait_for_uploads(Context context) {
  while (dirty_.has_under_way())
    co_await wait_for_change(context, dirty_.writing_span());
}

asio::awaitable<Status> WriteBack::drain_while_paused(Context context) {
  draining_ = true;
  const Status status = co_await drain(context);
  draining_ = false;
  co_return status;
}

void WriteBack::cut(uint64_t size) {
  dirty_.cut(size);
  if (dirty_.newest().empty()) dirty_since_.clear();
}

// ---- what cannot be written out any more

void WriteBack::discard(Status why) {
  if (!is_clean()) handles_.record_error(why);
  dirty_.discard();
  want_all_ = false;
  dirty_since_.clear();
  changed_.notify_all();
  shared_.freed();
}

void WriteBack::lease_lost() {
  reader_.forget(0, UINT64_MAX);
  attributes_.doubt_own_changes();
  if (is_clean()) return;
  log::warning(
      "inode {}: {} bytes are given up: this client was silent for so long that the file was given to others",
      inode_, dirty_.bytes());
  discard({Code::kLeaseLost, "the file was given to other clients meanwhile"});
}

void WriteBack::is_gone(const Status& why) {
  gone_ = why;
  discard(why);
}

void WriteBack::give_up_failed() {
  if (!dirty_.has_failed()) return;
  log::warning("inode {}: {} bytes that could not be written are given up: {}", inode_, dirty_.bytes(),
               handles_.last_error().to_string());
  discard(handles_.last_error());
}

}  // namespace kintsugi::client
