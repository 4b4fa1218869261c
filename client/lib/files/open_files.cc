#include "client/lib/files/open_files.h"

#include "client/lib/files/files_shared.h"
#include "client/lib/files/open_file_state.h"
#include "common/base/assert.h"
#include "common/posix/set_ids.h"

namespace kintsugi::client {
OpenFiles::OpenFiles(Resources& resources, FilesOptions options, std::unique_ptr<DirtyMemory> memory,
                     ChangeJournal* journal, std::span<std::byte> name_log, std::span<std::byte> own_locks)
    : shared_(std::make_unique<FilesShared>(resources, options, std::move(memory), journal, name_log,
                                            own_locks)) {
  shared_->session.start(options.kernel_believes);
  shared_->unsent.start_flush();
  shared_->ticker.spawn(shared_->tick());
}

OpenFiles::~OpenFiles() = default;

Session& OpenFiles::session() {
  return shared_->session;
}

InodeCalls& OpenFiles::calls() {
  return shared_->calls;
}

LeasedLocks& OpenFiles::locks() {
  return shared_->locks;
}

LeasedNames& OpenFiles::names() {
  return shared_->names;
}

std::optional<proto::Attributes> OpenFiles::set_attributes(const proto::SetAttributesRequest& request) {
  const uint64_t inode = request.inode();
  const auto file = shared_->files.find(inode);
  const proto::Attributes* made = shared_->names.made(inode);
  if (made == nullptr) made = shared_->names.directory(inode);
  const bool leased = file != shared_->files.end() && shared_->session.has_lease(inode);
  if (made == nullptr && !leased) return std::nullopt;
  if (file != shared_->files.end() && !file->second->may_set_attributes()) return std::nullopt;
  proto::Attributes now = file != shared_->files.end() ? file->second->attributes() : *made;
  // Whatever has rules of its own is the metaserver's: sizes, set-ID bits, access lists.
  const uint32_t uid = request.caller().uid();
  const bool simple = !request.has_size() && !now.has_xattrs() && (request.mode() & posix::kSetIdBits) == 0 &&
                      (now.mode() & posix::kSetIdBits) == 0 &&
                      (!request.has_modified_ns() || request.modified_ns() > 0);
  const bool chown = request.has_uid() || request.has_gid();
  if (!simple || (uid != 0 && (uid != now.uid() || chown))) return std::nullopt;
  const int64_t at = shared_->resources.runtime.clock.wall_now().time_since_epoch().count();
  proto::SetAttributesRequest change = request;
  if (change.modified_now()) change.set_modified_ns(at);
  if (change.accessed_now()) change.set_accessed_ns(at);
  change.clear_modified_now();
  change.clear_accessed_now();
  if (change.has_mode()) now.set_mode(change.mode());
  if (change.has_uid()) now.set_uid(change.uid());
  if (change.has_gid()) now.set_gid(change.gid());
  if (change.has_modified_ns()) now.set_modified_ns(change.modified_ns());
  if (change.has_accessed_ns()) now.set_accessed_ns(change.accessed_ns());
  // Never back, whatever this machine's clock says: by this time answers are put in their order.
  now.set_changed_ns(std::max(at, now.changed_ns() + 1));
  const bool modified = change.has_modified_ns();
  if (!shared_->names.set_attributes(std::move(change), now)) return std::nullopt;
  if (file == shared_->files.end()) return now;
  file->second->attributes_set(now, modified);
  return file->second->attributes();
}

asio::awaitable<Result<std::unique_ptr<OpenHandle>>> OpenFiles::open(Context context, uint64_t inode,
                                                                     bool for_writing) {
  // Held first: it could lose its last name while its attributes are on their way.
  shared_->session.hold(inode);
  proto::OpenReadResponse where;
  const auto attributes =
      co_await shared_->calls.get(context, inode, true, for_writing, for_writing ? nullptr : &where);
  Status status = attributes ? Status{} : attributes.error();
  if (status.ok() && attributes->type() == proto::Attributes::DIRECTORY)
    status = {Code::kIsDirectory, fmt::format("inode {} is a directory", inode)};
  if (!status.ok()) {
    shared_->session.release(inode);
    co_return status;
  }
  auto handle = open(*attributes, true, &where);
  shared_->session.release(inode);
  co_return handle;
}

std::unique_ptr<OpenHandle> OpenFiles::open(const proto::Attributes& attributes, bool held,
                                            const proto::OpenReadResponse* where) {
  const uint64_t inode = attributes.inode();
  auto& state = shared_->files[inode];
  if (state) {
    state->adopt(attributes);
  } else {
    state = std::make_shared<OpenFileState>(*shared_, attributes);
    if (where) state->learn_locations(*where);
  }
  if (held) {
    shared_->session.held().held(inode);
  } else {
    shared_->session.hold(inode);
  }
  return std::make_unique<OpenHandle>(state);
}

std::unique_ptr<OpenFile> OpenFiles::find(uint64_t inode) {
  const auto found = shared_->files.find(inode);
  return found == shared_->files.end() ? nullptr : std::make_unique<OpenFile>(found->second);
}

void OpenFiles::give_back(uint64_t inode) {
  if (shared_->session.has_lease(inode)) shared_->leases.end_leases({inode});
}

bool OpenFiles::has_dirty() const {
  return !shared_->dirty_since.empty() || shared_->buffers.free() < shared_->buffers.total();
}

void OpenFiles::note_appends(std::span<std::byte> region) {
  shared_->appends = std::make_unique<AppendLog>(region);
}

uint64_t OpenFiles::recover() {
  KINTSUGI_ASSERT(shared_->files.empty());
  uint64_t bytes = 0;
  for (DirtyPiece& piece : shared_->buffers.recover()) {
    auto& state = shared_->files[piece.inode()];
    if (!state) {
      proto::Attributes attributes;
      attributes.set_inode(piece.inode());
      state = std::make_shared<OpenFileState>(*shared_, std::move(attributes));
    }
    bytes += piece.length();
    state->recover(std::move(piece));
  }
  for (const auto& [inode, state] : shared_->files)
    state->start_flush();
  return bytes;
}

asio::awaitable<Status> OpenFiles::sync_all(Context context) {
  shared_->unsent.start_flush();
  std::vector<std::shared_ptr<OpenFileState>> dirty;
  for (const auto& [inode, state] : shared_->files) {
    if (!state->is_clean()) dirty.push_back(state);
  }
  for (const auto& state : dirty)
    state->start_flush();
  Status first;
  for (const auto& state : dirty) {
    const Status status = co_await state->flush(context);
    // A file that is gone and that nobody has open was removed: there is nothing of it to be kept.
    const bool was_removed = status.code() == Code::kStale && !state->is_open();
    if (first.ok() && !was_removed) first = status;
  }
  const Status names = co_await shared_->unsent.flush(context);
  if (first.ok()) first = names;
  co_return first;
}

asio::awaitable<Status> OpenFiles::stop(bool hand_over) {
  Status status;
  if (hand_over) {
    shared_->handed_over = true;
  } else {
    status = co_await sync_all(shared_->context());
  }
  // With the end of the session all leases are given back.
  shared_->session.forget_user();
  co_await shared_->ticker.stop();
  co_await shared_->tasks.stop();
  co_await shared_->session.stop(hand_over);
  if (hand_over) shared_->buffers.hand_over();
  for (const auto& [inode, state] : shared_->files) {
    if (!hand_over && !state->is_clean()) state->discard(status);
  }
  shared_->files.clear();
  co_return status;
}

OpenFiles::Counts OpenFiles::counts() const {
  Counts counts = shared_->counts;
  counts.stripes_written += shared_->groups.counts().stripes;
  counts.extents_written += shared_->groups.counts().extents;
  counts.dirty_memory = (shared_->buffers.total() - shared_->buffers.free()) * DirtyBuffers::kBufferBytes;
  for (const auto& [inode, state] : shared_->files)
    counts.dirty_bytes += state->dirty_bytes();
  counts.read_ahead_bytes = shared_->read_ahead_bytes;
  return counts;
}

OpenFiles::Traffic OpenFiles::traffic() const {
  Traffic traffic = shared_->traffic;
  traffic.dirty_bytes = (shared_->buffers.total() - shared_->buffers.free()) * DirtyBuffers::kBufferBytes;
  return traffic;
}

}  // namespace kintsugi::client
