#include "client/lib/files/open_file_state.h"

#include <algorithm>
#include <limits>

#include "common/base/assert.h"
#include "common/base/math.h"
#include "common/log/log.h"
#include "common/proto/inline_data.h"
#include "erasure/policy.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr uint64_t kMaxFileBytes = std::numeric_limits<int64_t>::max();
constexpr uint64_t kReadStep = 1 << 20;
constexpr uint64_t kLookEvery = 1 << 20;  ///< bytes written between two looks for a full stripe
constexpr uint64_t kLayersInMemory = 4;   ///< full layers that the memory of dirty bytes has room for
constexpr uint64_t kUnknownRow = 6 << 20;
constexpr uint32_t kSetUid = 04000, kSetGid = 02000, kGroupExecutes = 0010;
constexpr Duration kFirstBackoff = 100ms, kLongestBackoff = 2s;
constexpr Duration kRetryFailed = 10s;  ///< but for sync, which tries at once
constexpr int kMaxRefusals = 3;         ///< times an upload that was given up is begun again

constexpr sight::Site kWriteOut{"client.write_out", {"bytes"}};

uint32_t without_privileges(uint32_t mode) {
  return mode & ~(kSetUid | ((mode & kGroupExecutes) != 0 ? kSetGid : 0));
}

bool may_pass(Code code) {
  return code == Code::kUnavailable || code == Code::kDeadlineExceeded;
}

}  // namespace

OpenFileState::OpenFileState(FilesShared& shared, proto::Attributes attributes)
    : shared_(shared),
      inode_(attributes.inode()),
      stored_(std::move(attributes)),
      told_ns_(stored_.changed_ns()),
      stored_reader_(shared, inode_),
      turn_(shared.resources.runtime, 1),
      changed_(shared.resources.runtime) {
  stored_reader_.on_attributes = [this](const proto::Attributes& found) { adopt(found); };
}

OpenFileState::~OpenFileState() {
  note_clean();
}

// ---- what is known

uint64_t OpenFileState::size() const {
  uint64_t size = std::max(stored_.size(), dirty_.end());
  for (const auto& layer : layers_)
    size = std::max(size, layer->ranges.end());
  return size;
}

proto::Attributes OpenFileState::attributes() const {
  proto::Attributes attributes = stored_;
  attributes.set_size(size());
  // Exactly what the metaserver will say once they are written out, so that nothing changes then.
  const auto look = [&attributes](const DirtyRanges& ranges) {
    if (ranges.empty()) return;
    const int64_t modified = ranges.modified_ns();
    const bool time_was_set = modified == attributes.modified_ns();
    attributes.set_changed_ns(std::max(attributes.changed_ns() + 1, time_was_set ? 0 : modified));
    attributes.set_modified_ns(modified);
    if (ranges.kill_privileges()) attributes.set_mode(without_privileges(attributes.mode()));
  };
  for (const auto& layer : layers_)
    look(layer->ranges);
  look(dirty_);
  // Bytes that are not written out yet will take room; whoever sees none takes the file for one big hole.
  const uint64_t will_use = std::min(attributes.used_bytes() + dirty_bytes(), attributes.size());
  attributes.set_used_bytes(std::max(attributes.used_bytes(), will_use));
  return attributes;
}

bool OpenFileState::kills_privileges() const {
  return dirty_.kill_privileges() ||
         std::ranges::any_of(layers_, [](const auto& layer) { return layer->ranges.kill_privileges(); });
}

void OpenFileState::each_dirty(const std::function<void(DirtyRanges&)>& change) {
  for (const auto& layer : layers_)
    change(layer->ranges);
  change(dirty_);
}

uint64_t OpenFileState::dirty_bytes() const {
  uint64_t bytes = dirty_.bytes();
  for (const auto& layer : layers_)
    bytes += layer->ranges.bytes();
  return bytes;
}

void OpenFileState::take(const proto::Attributes& attributes, uint64_t since) {
  if (attributes.inode() != inode_) return;
  // Only what was heard while the call was under way can be newer than its answer.
  if (since != heard_ && attributes.changed_ns() < stored_.changed_ns()) return;
  stored_ = attributes;
  told_ns_ = attributes.changed_ns();
  ++heard_;
}

void OpenFileState::attributes_written(const proto::Attributes& attributes) {
  if (attributes.inode() != inode_ || attributes.changed_ns() < told_ns_) return;
  stored_ = attributes;
  told_ns_ = attributes.changed_ns();
  ++heard_;
}

void OpenFileState::adopt(const proto::Attributes& attributes) {
  if (attributes.inode() != inode_ || attributes.changed_ns() < stored_.changed_ns()) return;
  const bool same = attributes.changed_ns() == stored_.changed_ns() &&
                    attributes.modified_ns() == stored_.modified_ns() && attributes.size() == stored_.size();
  stored_ = attributes;
  told_ns_ = attributes.changed_ns();
  ++heard_;
  if (!same) stored_reader_.forget(0, UINT64_MAX);
}

asio::awaitable<Result<proto::Attributes>> OpenFileState::refresh(Context context) {
  const auto found = co_await shared_.calls.get(context, inode_);
  if (!found) co_return found.error();
  adopt(*found);
  co_return attributes();
}

void OpenFileState::invalidate(uint64_t begin, uint64_t end) {
  stored_reader_.forget(begin, end);
}

asio::awaitable<void> OpenFileState::wait_for_change(Context context, uint64_t span) {
  const runtime::Wait wait(context, runtime::WaitKind::kSibling, 0, span);
  co_await changed_.wait();
}

asio::awaitable<void> OpenFileState::wait_while_exclusive(Context context) {
  while (exclusive_)
    co_await wait_for_change(context, turn_span_);
}

// ---- reading

asio::awaitable<Result<size_t>> OpenFileState::read(Context context, uint64_t offset,
                                                    std::span<std::byte> into) {
  const auto self = shared_from_this();
  if (exclusive_) co_await wait_while_exclusive(context);
  const uint64_t size = this->size();
  if (offset >= size || into.empty()) co_return size_t{0};
  into = into.first(std::min<uint64_t>(into.size(), size - offset));
  // What is not written out is copied before anything is waited for: it may be durable, and gone from here, a moment later.
  std::vector<ByteRange> missing{{offset, offset + into.size()}};
  dirty_.overlay(offset, into, missing);
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer)
    (*layer)->ranges.overlay(offset, into, missing);
  const uint64_t stored_size = stored_.size();
  for (const ByteRange& range : missing) {
    const auto part = into.subspan(range.begin - offset, range.length());
    // Beyond what is stored there is a hole, whatever comes there meanwhile.
    const uint64_t stored =
        range.begin >= stored_size ? 0 : std::min(range.length(), stored_size - range.begin);
    // A long range is read in steps, so that what follows is read ahead meanwhile.
    for (uint64_t at = 0; at < stored; at += kReadStep) {
      const uint64_t bytes = std::min(stored - at, kReadStep);
      stored_reader_.note_read(self, range.begin + at, bytes, stored_size);
      KINTSUGI_CO_TRY(co_await stored_reader_.read(context, range.begin + at, part.subspan(at, bytes)));
    }
    std::ranges::fill(part.subspan(stored), std::byte{});
  }
  co_return into.size();
}

asio::awaitable<Result<uint64_t>> OpenFileState::seek(Context context, uint64_t offset, bool data) {
  const auto self = shared_from_this();
  if (exclusive_) co_await wait_while_exclusive(context);
  const uint64_t size = this->size();
  if (offset >= size) co_return Status{Code::kRange, "beyond the end of the file"};
  const auto each = [this](auto look) {
    for (const auto& layer : layers_)
      look(layer->ranges);
    look(dirty_);
  };
  if (data) {
    uint64_t next = UINT64_MAX;
    each([&](const DirtyRanges& ranges) { next = std::min(next, ranges.next_data(offset)); });
    if (next > offset) {
      KINTSUGI_CO_ASSIGN(const uint64_t stored, co_await stored_reader_.next_data(
                                                    context, offset, std::max(offset, stored_.size())));
      if (stored < stored_.size()) next = std::min(next, stored);
    }
    if (next >= size) co_return Status{Code::kNoData, "no data until the end of the file"};
    co_return next;
  }
  while (offset < size) {
    const uint64_t before = offset;
    each([&](const DirtyRanges& ranges) { offset = std::max(offset, ranges.next_gap(offset)); });
    if (offset < stored_.size()) {
      KINTSUGI_CO_ASSIGN(offset, co_await stored_reader_.next_hole(context, offset, stored_.size()));
    }
    if (offset == before) break;
  }
  co_return std::min(offset, size);
}

// ---- writing

asio::awaitable<Status> OpenFileState::write(Context context, uint64_t offset,
                                             std::span<const std::byte> bytes, bool kill_privileges) {
  const auto self = shared_from_this();
  KINTSUGI_CO_TRY(co_await take_turn(context));
  Status written = co_await write_in_turn(context, offset, bytes, kill_privileges);
  turn_.release();
  co_return written;
}

asio::awaitable<Result<uint64_t>> OpenFileState::append(Context context, std::span<const std::byte> bytes,
                                                        bool kill_privileges, uint64_t request) {
  const auto self = shared_from_this();
  KINTSUGI_CO_TRY(co_await take_turn(context));
  const auto appended = co_await append_in_turn(context, bytes, kill_privileges, request);
  turn_.release();
  co_return appended;
}

asio::awaitable<Result<uint64_t>> OpenFileState::append_in_turn(Context context,
                                                                std::span<const std::byte> bytes,
                                                                bool kill_privileges, uint64_t request) {
  uint64_t offset = size();
  if (const auto begun = shared_.appends->begun(inode_, request)) {
    const bool others_followed = *begun < size() && size() - *begun > bytes.size();
    if (!others_followed) {
      offset = std::min(*begun, size());
    } else {
      KINTSUGI_CO_ASSIGN(const bool there, co_await holds(context, *begun, bytes));
      if (there) co_return *begun;
    }
  }
  const AppendLog::Note note(*shared_.appends, inode_, request, offset);
  KINTSUGI_CO_TRY(co_await write_in_turn(context, offset, bytes, kill_privileges));
  co_return offset;
}

asio::awaitable<Result<bool>> OpenFileState::holds(Context context, uint64_t offset,
                                                   std::span<const std::byte> bytes) {
  std::vector<std::byte> found(bytes.size());
  KINTSUGI_CO_ASSIGN(const size_t read, co_await this->read(context, offset, found));
  co_return read == bytes.size() && std::ranges::equal(found, bytes);
}

asio::awaitable<Status> OpenFileState::take_turn(Context context) {
  if (turn_.try_acquire()) co_return Status{};
  const runtime::Wait wait(context, runtime::WaitKind::kSibling, 0, turn_span_);
  if ((co_await turn_.acquire(shared_.give_up())).ok()) co_return Status{};
  co_return Status{Code::kUnavailable, "what was begun before did not end in time"};
}

asio::awaitable<Status> OpenFileState::write_in_turn(Context context, uint64_t offset,
                                                     std::span<const std::byte> bytes, bool kill_privileges) {
  KINTSUGI_ASSERT(is_open() && !exclusive_);
  if (offset > kMaxFileBytes || bytes.size() > kMaxFileBytes - offset)
    co_return Status{Code::kFileTooLarge, "a file has at most 2^63 - 1 bytes"};
  for (size_t done = 0; done < bytes.size();) {
    if (!gone_.ok()) co_return gone_;
    const size_t share = shared_.buffers.total() / 2;
    size_t mine = dirty_.buffers();
    for (const auto& layer : layers_)
      mine += layer->ranges.buffers();
    size_t taken = 0;
    if (shared_.waiting_for_room == 0 || mine < share) {
      const int64_t now = shared_.resources.runtime.clock.wall_now().time_since_epoch().count();
      const auto rest = bytes.subspan(done);
      taken = dirty_.write(shared_.buffers, inode_, offset + done, rest, now, kill_privileges);
    }
    done += taken;
    if (taken > 0) {
      note_dirty();
      advance();
    }
    if (shared_.buffers.free() < shared_.buffers.total() / 4) shared_.relieve();
    if (done < bytes.size()) KINTSUGI_CO_TRY(co_await wait_for_room(context));
  }
  co_return Status{};
}

asio::awaitable<Status> OpenFileState::wait_for_room(Context context) {
  // What this file cannot write out is in the way of itself: that is an error to tell, after another attempt.
  if (has_failed()) co_return co_await drain(context);
  ++shared_.waiting_for_room;
  shared_.relieve();
  runtime::Wait wait(context, runtime::WaitKind::kResource, runtime::named_target(context, "dirty memory"));
  const bool woken = co_await shared_.room.wait_until(shared_.give_up());
  --shared_.waiting_for_room;
  if (woken) co_return Status{};
  co_return Status{Code::kUnavailable, "no memory came free for what was written"};
}

void OpenFileState::note_dirty() {
  if (dirty_since_) return;
  dirty_since_ = shared_.resources.now();
  shared_.is_dirty(inode_, *dirty_since_);
}

void OpenFileState::note_clean() {
  if (!dirty_since_) return;
  shared_.not_dirty(inode_, *dirty_since_);
  dirty_since_.reset();
}

uint64_t OpenFileState::full_bytes() {
  if (full_bytes_ != 0 && policy_of_full_ == stored_.policy()) return full_bytes_;
  policy_of_full_ = stored_.policy();
  const auto policy = erasure::Policy::parse(policy_of_full_);
  const uint64_t row = policy ? uint64_t{policy->k} * policy->cell_bytes : kUnknownRow;
  const uint64_t memory = shared_.buffers.total() * DirtyBuffers::kBufferBytes;
  full_bytes_ = std::max(row, round_down(memory / kLayersInMemory, row));
  return full_bytes_;
}

// ---- writing out

void OpenFileState::start_flush() {
  if (has_failed() && shared_.resources.now() < retry_after_) return;
  retry_failed();
  if (dirty_.empty()) return;
  want_all_ = true;
  advance();
}

void OpenFileState::retry_failed() {
  if (!may_freeze()) return;
  for (const auto& layer : layers_) {
    if (!layer->under_way) start(layer);
  }
}

void OpenFileState::advance() {
  while (may_freeze() && !dirty_.empty() && layers_.size() < kMaxLayers) {
    if (has_failed()) break;  // tried again before, in order
    if (want_all_) {
      freeze(dirty_.split({0, UINT64_MAX}, kMaxLayerPieces));
      continue;
    }
    if (dirty_.bytes() < std::max(look_for_run_at_, full_bytes())) break;
    const uint64_t full = full_bytes();
    const ByteRange run = dirty_.long_run(full, full);
    if (run.length() == 0) {
      look_for_run_at_ = dirty_.bytes() + kLookEvery;
      break;
    }
    freeze(dirty_.split(run, kMaxLayerPieces));
  }
  if (!dirty_.empty()) return;
  want_all_ = false;
  note_clean();
  changed_.notify_all();
}

void OpenFileState::freeze(DirtyRanges ranges) {
  look_for_run_at_ = 0;
  const auto layer = std::make_shared<Layer>();
  layer->number = ++layers_made_;
  layer->ranges = std::move(ranges);
  layers_.push_back(layer);
  start(layer);
}

void OpenFileState::start(std::shared_ptr<Layer> layer) {
  layer->under_way = true;
  layer->failure = {};
  shared_.tasks.spawn(flush_layer(shared_from_this(), layer));
}

asio::awaitable<void> OpenFileState::flush_layer(std::shared_ptr<OpenFileState> self,
                                                 std::shared_ptr<Layer> layer) {
  ++shared_.counts.flushes;
  Status status;
  bool gone = false;
  {
    sight::Task task(shared_.context(), kWriteOut, {static_cast<double>(layer->ranges.bytes())});
    layer->span = task.context().trace.span_id;
    changed_.notify_all();  // whoever waits for it says so from now on
    status = task.finish(co_await write_out(task.context(), layer));
    // A lease that was lost is refused with the same code: then the file is still there, and only these bytes are lost.
    if (status.code() == Code::kStale && !layer->discarded)
      if (const auto there = co_await shared_.calls.get(task.context(), inode_); !there)
        gone = there.error().code() == Code::kStale;
  }
  layer->span = 0;
  layer->under_way = false;
  layer->failure = status;
  if (!status.ok() && !layer->discarded) {
    const bool first = layers_.front() == layer;
    if (status.code() != Code::kStale) {
      log::info("inode {}: writing out failed: {}", inode_, status.to_string());
    } else if (is_open() && gone) {
      log::warning("inode {}: {} bytes are lost: the file is open here and gone at the metaserver", inode_,
                   dirty_bytes());
    }  // else its last name was removed: nobody will ask for the bytes
    if (status.code() == Code::kStale) {
      if (gone) {
        gone_ = status;
        discard(status);
      } else {
        lease_lost();
      }
      shared_.session.give_back(inode_);
    } else if (first && !std::exchange(layer->told, true)) {
      record_error(status);
    }
    retry_after_ = shared_.resources.now() + kRetryFailed;
  }
  if (layer->discarded) std::erase(layers_, layer);
  if (!is_open() && !shared_.handed_over) give_up_failed();
  advance();
  changed_.notify_all();
  shared_.freed();
  if (is_clean() && !is_open()) shared_.forget(inode_);
}

asio::awaitable<Status> OpenFileState::write_out(Context context, std::shared_ptr<Layer> layer) {
  const TimePoint give_up = shared_.give_up();
  int refusals = 0;
  for (Duration backoff = kFirstBackoff;; backoff = std::min(2 * backoff, kLongestBackoff)) {
    const Status status = co_await try_write_out(context, layer);
    if (status.ok() || layer->discarded) co_return status;
    // The metaserver may have given the upload up, as when it was not heard of for a while.
    const bool refused = status.code() == Code::kConflict || status.code() == Code::kNotFound;
    if (!may_pass(status.code()) && !(refused && ++refusals <= kMaxRefusals)) co_return status;
    if (shared_.resources.now() + backoff >= give_up) co_return status;
    log::debug("inode {}: writing out again: {}", inode_, status.to_string());
    const runtime::Wait wait(context, runtime::WaitKind::kTimer);
    if (!co_await shared_.tasks.sleep_for(backoff)) co_return status;
  }
}

asio::awaitable<Status> OpenFileState::try_write_out(Context context, std::shared_ptr<Layer> layer) {
  if (layer->discarded) co_return Status{Code::kCancelled, "given up"};
  // The metaserver has to know the file of which it is asked for the code.
  if (stored_.policy().empty()) KINTSUGI_CO_TRY(co_await shared_.names.flush(context));
  UploadMember member{inode_, stored_.policy(), layer, &layer->ranges, &layer->discarded};
  if (layer->ranges.bytes() <= FlushGroups::kMaxMemberBytes) {
    KINTSUGI_CO_TRY(co_await wait_for_turn(context, *layer));
    const uint64_t since = heard_;
    KINTSUGI_CO_ASSIGN(const proto::Attributes attributes,
                       co_await shared_.groups.write(context, std::move(member)));
    if (!layer->discarded) layer_is_durable(*layer, attributes, since);
    co_return Status{};
  }
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
  const uint64_t since = heard_;
  const auto written = co_await shared_.calls.write_extents(context, std::move(request));
  if (!written) co_return written.error();
  if (!layer->discarded) layer_is_durable(*layer, written->attributes(), since);
  co_return Status{};
}

asio::awaitable<Status> OpenFileState::wait_for_turn(Context context, const Layer& layer) {
  while (!layer.discarded && layers_.front().get() != &layer) {
    if (!layers_.front()->under_way) co_return Status{Code::kCancelled, "what was written before failed"};
    co_await wait_for_change(context, writing_span());
  }
  co_return layer.discarded ? Status{Code::kCancelled, "given up"} : Status{};
}

void OpenFileState::layer_is_durable(const Layer& layer, const proto::Attributes& attributes,
                                     uint64_t since) {
  KINTSUGI_ASSERT(layers_.front().get() == &layer);
  take(attributes, since);
  for (const ByteRange& run : layer.ranges.runs())
    stored_reader_.forget(run.begin, run.end);
  // Databases read back at once what they have synced.
  if (layer.ranges.bytes() <= proto::kMaxInlineFileBytes && shared_.session.has_lease(inode_))
    stored_reader_.learn_written(layer.ranges);
  // Its buffers are free before the next layer may be part of the file: whoever finds them in the memory of a process that
  // died would write old bytes over newer ones.
  const auto durable = std::move(layers_.front());
  layers_.pop_front();
  durable->ranges = {};
  changed_.notify_all();
  shared_.freed();
}

void OpenFileState::record_error(const Status& status) {
  ++errors_;
  last_error_ = status;
}

void OpenFileState::discard(Status why) {
  if (!is_clean()) record_error(why);
  dirty_ = {};
  want_all_ = false;
  note_clean();
  for (const auto& layer : layers_)
    layer->discarded = true;
  std::erase_if(layers_, [](const auto& layer) { return !layer->under_way; });
  changed_.notify_all();
  shared_.freed();
}

void OpenFileState::lease_lost() {
  stored_reader_.forget(0, UINT64_MAX);
  stored_.set_changed_ns(told_ns_);
  if (is_clean()) return;
  log::warning(
      "inode {}: {} bytes are given up: this client was silent for so long that the file was given to others",
      inode_, dirty_bytes());
  discard({Code::kStale, "the file was given to other clients meanwhile"});
}

void OpenFileState::is_gone(const Status& why) {
  gone_ = why;
  discard(why);
}

void OpenFileState::attributes_set(const proto::Attributes& attributes, bool modified) {
  const uint64_t stored_size = stored_.size();
  stored_ = attributes;
  stored_.set_size(stored_size);
  // Bytes that are written out later must not set the time back to that of their write.
  if (modified) dirty_.set_modified(attributes.modified_ns());
}

void OpenFileState::close_one() {
  shared_.session.release(inode_);
  if (--handles_ > 0 || shared_.handed_over) return;
  give_up_failed();
  // Under a lease it may wait: who wants to see it asks for the lease first.
  if (!shared_.session.has_lease(inode_)) start_flush();
  if (is_clean()) shared_.forget(inode_);
}

void OpenFileState::give_up_failed() {
  if (!has_failed()) return;
  log::warning("inode {}: {} bytes that could not be written are given up: {}", inode_, dirty_bytes(),
               last_error_.to_string());
  discard(last_error_);
}

bool OpenFileState::has_failed() const {
  return std::ranges::any_of(layers_, [](const auto& layer) { return !layer->under_way; });
}

bool OpenFileState::has_under_way() const {
  return std::ranges::any_of(layers_, [](const auto& layer) { return layer->under_way; });
}

asio::awaitable<Status> OpenFileState::drain_exclusively(Context context) {
  draining_ = true;
  const Status status = co_await drain(context);
  draining_ = false;
  co_return status;
}

asio::awaitable<Status> OpenFileState::drain(Context context) {
  retry_failed();
  if (!dirty_.empty()) want_all_ = true;
  advance();
  const auto failure = [this]() -> const Status* {
    return layers_.empty() || layers_.front()->under_way ? nullptr : &layers_.front()->failure;
  };
  const uint64_t errors_before = errors_;
  while (want_all_ && !failure())
    co_await wait_for_change(context, writing_span());
  const uint64_t last = layers_made_;
  while (!layers_.empty() && layers_.front()->number <= last && !failure())
    co_await wait_for_change(context, writing_span());
  if (failure()) co_return *failure();
  // What was discarded is not durable either.
  co_return errors_ == errors_before ? Status{} : last_error_;
}

asio::awaitable<Status> OpenFileState::flush(Context context) {
  const auto self = shared_from_this();
  if (exclusive_) co_await wait_while_exclusive(context);
  if (!gone_.ok()) co_return gone_;
  // Few names go along with the bytes; many go ahead of them, which take longer.
  if (is_clean() || !shared_.names.is_little()) shared_.names.start_flush();
  KINTSUGI_CO_TRY(co_await drain(context));
  co_return co_await shared_.names.flush(context);
}

void OpenFileState::recover(DirtyPiece piece) {
  // What overlaps lies in another layer, which is written out before.
  if (dirty_.next_data(piece.offset()) < piece.end()) {
    const auto layer = std::make_shared<Layer>();
    layer->number = ++layers_made_;
    layer->ranges = std::move(dirty_);
    layer->failure = {Code::kUnavailable, "not written out yet"};
    layers_.push_back(layer);
    dirty_ = {};
  }
  dirty_.add(std::move(piece));
  note_dirty();
}

// ---- operations on the whole file

asio::awaitable<void> OpenFileState::begin_exclusive(Context context) {
  {
    const runtime::Wait wait(context, runtime::WaitKind::kSibling, 0, turn_span_);
    (void)co_await turn_.acquire(TimePoint::max());
  }
  exclusive_ = true;
  turn_span_ = context.trace.span_id;
  while (has_under_way())
    co_await wait_for_change(context, writing_span());
}

void OpenFileState::end_exclusive() {
  exclusive_ = false;
  turn_.release();
  advance();
  changed_.notify_all();
}

asio::awaitable<Result<proto::Attributes>> OpenFileState::set_attributes(
    Context context, proto::SetAttributesRequest request) {
  const auto self = shared_from_this();
  if (request.has_size() && request.size() > kMaxFileBytes)
    co_return Status{Code::kFileTooLarge, "a file has at most 2^63 - 1 bytes"};
  request.set_inode(inode_);
  const bool times = request.has_modified_ns() || request.modified_now();
  const bool ends_kill = request.has_mode() && kills_privileges();
  if (!request.has_size() && !times && !ends_kill) {
    const uint64_t since = heard_;
    ++changes_under_way_;
    const auto changed = co_await shared_.calls.set_attributes(context, std::move(request));
    --changes_under_way_;
    if (!changed) co_return changed.error();
    take(*changed, since);
    co_return attributes();
  }
  co_await begin_exclusive(context);
  proto::Attributes result;
  const Status status = co_await set_attributes_exclusively(context, request, result);
  end_exclusive();
  if (!status.ok()) co_return status;
  co_return result;
}

asio::awaitable<Status> OpenFileState::set_attributes_exclusively(Context context,
                                                                  proto::SetAttributesRequest& request,
                                                                  proto::Attributes& result) {
  const std::optional<uint64_t> size = request.has_size() ? std::optional(request.size()) : std::nullopt;
  // Bytes of time 0 get the time at which they are written out, and what is written next must not be older than what was before.
  const int64_t now = shared_.resources.runtime.clock.wall_now().time_since_epoch().count();
  const bool odd = request.has_modified_ns() && (request.modified_ns() <= 0 || request.modified_ns() > now);
  if (!size && odd) KINTSUGI_CO_TRY(co_await drain_exclusively(context));
  const uint64_t since = heard_;
  const auto changed = co_await shared_.calls.set_attributes(context, request);
  if (!changed) co_return changed.error();
  if (size) {
    each_dirty([&](DirtyRanges& ranges) { ranges.cut(*size); });
    std::erase_if(layers_, [](const auto& layer) { return layer->ranges.empty(); });
    if (dirty_.empty()) note_clean();
    stored_reader_.forget(std::min(*size, stored_.size()), UINT64_MAX);
    shared_.freed();
  }
  // Bytes that are written out later must set neither the time back to that of their write nor the mode to what the write made of it.
  if (size || request.has_modified_ns() || request.modified_now())
    each_dirty([&](DirtyRanges& ranges) { ranges.set_modified(changed->modified_ns()); });
  if (request.has_mode()) each_dirty([](DirtyRanges& ranges) { ranges.keep_privileges(); });
  take(*changed, since);
  result = attributes();
  co_return Status{};
}

asio::awaitable<Status> OpenFileState::allocate(Context context, AllocateMode mode, uint64_t offset,
                                                uint64_t length) {
  const auto self = shared_from_this();
  if (length == 0 || (mode.punch_hole && (!mode.keep_size || mode.zero_range)))
    co_return Status{mode.punch_hole ? Code::kNotSupported : Code::kInvalidArgument,
                     "no such way to allocate"};
  if (offset > kMaxFileBytes || length > kMaxFileBytes - offset)
    co_return Status{Code::kFileTooLarge, "a file has at most 2^63 - 1 bytes"};
  if (mode.punch_hole || mode.zero_range) {
    co_await begin_exclusive(context);
    const Status status = co_await make_hole(context, mode, offset, length);
    end_exclusive();
    co_return status;
  }
  // Space is not reserved: nobody knows which stripes it will be in.
  if (mode.keep_size || offset + length <= size()) co_return Status{};
  proto::SetAttributesRequest request;
  request.set_size(offset + length);
  request.set_opened_for_writing(true);
  const auto changed = co_await set_attributes(context, std::move(request));
  co_return changed ? Status{} : changed.error();
}

asio::awaitable<Status> OpenFileState::make_hole(Context context, AllocateMode mode, uint64_t offset,
                                                 uint64_t length) {
  KINTSUGI_CO_TRY(co_await drain_exclusively(context));
  const uint64_t end = mode.keep_size ? std::min(offset + length, size()) : offset + length;
  if (end <= offset) co_return Status{};
  proto::WriteExtentsRequest request;
  request.set_inode(inode_);
  proto::Extent& hole = *request.add_extents();
  hole.set_file_offset(offset);
  hole.set_length(end - offset);
  if (!mode.keep_size) request.set_size_at_least(end);
  const uint64_t since = heard_;
  const auto written = co_await shared_.calls.write_extents(context, std::move(request));
  if (!written) co_return written.error();
  take(written->attributes(), since);
  stored_reader_.forget(offset, end);
  co_return Status{};
}

asio::awaitable<Result<uint64_t>> OpenFileState::copy_range(Context context, OpenFileState& from,
                                                            uint64_t from_offset, uint64_t to_offset,
                                                            uint64_t length) {
  const auto self = shared_from_this();
  const auto other = from.shared_from_this();
  if (&from != this) KINTSUGI_CO_TRY(co_await from.flush(context));
  co_await begin_exclusive(context);
  auto copied = co_await copy_into(context, from, from_offset, to_offset, length);
  end_exclusive();
  co_return copied;
}

asio::awaitable<Result<uint64_t>> OpenFileState::copy_into(Context context, OpenFileState& from,
                                                           uint64_t from_offset, uint64_t to_offset,
                                                           uint64_t length) {
  KINTSUGI_CO_TRY(co_await drain_exclusively(context));
  const uint64_t there = from.size() > from_offset ? from.size() - from_offset : 0;
  length = std::min(length, there);
  uint64_t done = 0;
  while (done < length) {
    proto::CopyExtentsRequest request;
    request.set_from(from.inode_);
    request.set_from_offset(from_offset + done);
    request.set_to(inode_);
    request.set_to_offset(to_offset + done);
    request.set_length(length - done);
    const uint64_t since = heard_;
    const auto answer = co_await shared_.calls.copy_extents(context, std::move(request));
    if (!answer && done == 0) co_return answer.error();
    if (!answer || answer->length() == 0) break;
    stored_reader_.forget(to_offset + done, to_offset + done + answer->length());
    take(answer->attributes(), since);
    done += answer->length();
  }
  co_return done;
}

}  // namespace kintsugi::client
