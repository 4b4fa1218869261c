#include "client/mount/cluster_file_system.h"

#include <algorithm>

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>

#include "client/lib/files/file_mode.h"
#include "client/mount/kernel/caller_process.h"
#include "client/mount/kernel/protocol.h"
#include "common/base/math.h"
#include "common/log/log.h"

namespace kintsugi::mount {
namespace {

constexpr size_t kBuffers = 64;
constexpr size_t kBufferBytes = 1 << 20;
constexpr size_t kListingsAtOnce = 32;
constexpr size_t kRemovedShare = 10;  ///< of what is remembered, directories that were removed
constexpr uint64_t kLockEnd = (uint64_t{1} << 63) - 1;
constexpr Duration kFirstLockPause = 5ms, kLongestLockPause = 200ms;
constexpr Duration kSpaceKnownFor = 1s;
constexpr uint32_t kBlockBytes = 4096;
constexpr uint32_t kSetIdBits = 06000;
constexpr uint64_t kSnapshotBit = uint64_t{1}
                                  << 63;  ///< of ids of inodes in snapshots, as the metaserver makes them
constexpr uint64_t kSpecialEntries = 2;   ///< "." and "..", which the metaserver does not list

Result<proto::Attributes::Type> type_of(uint32_t mode) {
  switch (mode & S_IFMT) {
    case 0:
    case S_IFREG: return proto::Attributes::FILE;
    case S_IFDIR: return proto::Attributes::DIRECTORY;
    case S_IFLNK: return proto::Attributes::SYMLINK;
    case S_IFIFO: return proto::Attributes::FIFO;
    case S_IFSOCK: return proto::Attributes::SOCKET;
    case S_IFCHR: return proto::Attributes::CHARACTER_DEVICE;
    case S_IFBLK: return proto::Attributes::BLOCK_DEVICE;
    default: return Status{Code::kInvalidArgument, "no file is of this type"};
  }
}

/// For whom the metaserver checks permissions. What only looks names up is checked by the kernel, which has the answers
/// cached anyway.
proto::Caller caller_of(const Caller& caller) {
  proto::Caller who;
  who.set_uid(caller.uid);
  who.set_gid(caller.gid);
  if (caller.uid == 0) return who;
  if (caller.supplementary_group) who.add_groups(*caller.supplementary_group);
  const auto groups = groups_of(caller.pid);
  if (groups) who.mutable_groups()->Add(groups->begin(), groups->end());
  return who;
}

bool writes(int flags) {
  return (flags & O_ACCMODE) != O_RDONLY;
}

}  // namespace

ClusterFileSystem::ClusterFileSystem(const runtime::Runtime& runtime, client::Client& client,
                                     client::OpenFiles& files, Notifier* notifier,
                                     ClusterFileSystemOptions options)
    : runtime_(runtime),
      client_(client),
      files_(files),
      notifier_(notifier),
      options_(options),
      cookie_budget_(options.listing_positions),
      listings_(runtime, kListingsAtOnce),
      // A handle of the process before this one must not be mistaken for one of this.
      next_handle_(runtime.random.next() << 24 | 1),
      buffers_(runtime, kBuffers, kBufferBytes),
      tasks_(runtime),
      last_known_(runtime.clock),
      beliefs_(runtime, files.session(), notifier, tasks_, {options.cached_for, options.remembered}) {}

ClusterFileSystem::~ClusterFileSystem() = default;

void ClusterFileSystem::started(const Negotiated& negotiated) {
  beliefs_.can_expire_names((negotiated.flags & FUSE_HAS_EXPIRE_ONLY) != 0);
  tasks_.spawn(learn());
}

asio::awaitable<void> ClusterFileSystem::learn() {
  const Context context = last_known_.asking(client_.context(), true);
  if (const auto root = co_await files_.calls().get(context, options_.root)) last_known_.root = *root;
  if (const auto told = co_await cluster_space(context)) last_known_.space = *told;
}

asio::awaitable<void> ClusterFileSystem::destroyed() {
  co_return;
}

asio::awaitable<void> ClusterFileSystem::close_all() {
  tasks_.request_stop();
  co_await tasks_.join();
  auto handles = std::exchange(handles_, {});
  for (auto& [handle, file] : handles)
    (void)co_await file->handle->close(client_.context());
}

ClusterFileSystem::Held ClusterFileSystem::held() const {
  return {.inodes = beliefs_.count(),
          .names = directory_names_.size(),
          .contents = cached_.size(),
          .removed = removed_directories_.size(),
          .positions = cookie_budget_.names(),
          .handles = handles_.size() + directories_.size()};
}

void ClusterFileSystem::forget(NodeId node, uint64_t) {
  beliefs_.forget(node);
  removed_directories_.erase(node);
}

// ---- attributes

Attributes ClusterFileSystem::attributes_of(const proto::Attributes& told) {
  const auto file = files_.find(told.inode());
  if (!file) return shown(told);
  file->adopt(told);
  return shown(file->attributes());
}

Attributes ClusterFileSystem::shown(const proto::Attributes& known) {
  Attributes attributes;
  attributes.inode = known.inode();
  attributes.size_bytes = known.size();
  attributes.blocks = divide_up(known.used_bytes(), uint64_t{512});
  attributes.accessed_ns = known.accessed_ns();
  attributes.modified_ns = known.modified_ns();
  attributes.changed_ns = known.changed_ns();
  attributes.mode = client::type_bits(known.type()) | known.mode();
  attributes.links = known.links();
  attributes.uid = known.uid();
  attributes.gid = known.gid();
  attributes.device = static_cast<uint32_t>(known.device());
  attributes.block_bytes = kBlockBytes;
  return attributes;
}

Entry ClusterFileSystem::entry_of(const Caller& caller, NodeId parent, std::string_view name,
                                  const proto::Attributes& told) {
  const std::pair key{parent, std::string(name)};
  if (told.type() != proto::Attributes::DIRECTORY) {
    directory_names_.erase(key);
  } else {
    if (directory_names_.size() >= options_.remembered) directory_names_.clear();
    directory_names_[key] = told.inode();
    removed_directories_.erase(told.inode());  // it may come back out of the trash
  }
  beliefs_.told(caller, told);
  Entry entry;
  entry.node = told.inode();
  entry.attributes = attributes_of(told);
  entry.entry_valid = beliefs_.lasts(caller, parent);
  entry.attributes_valid = beliefs_.lasts(caller);
  return entry;
}

AttributesAnswer ClusterFileSystem::answer_of(const Caller& caller, const proto::Attributes& told) {
  beliefs_.told(caller, told);
  return {attributes_of(told), beliefs_.lasts(caller)};
}

asio::awaitable<Result<Entry>> ClusterFileSystem::lookup(const Caller& caller, NodeId parent,
                                                         std::string_view name) {
  proto::LookupRequest request;
  request.set_parent(parent);
  request.set_name(std::string(name));
  const auto found = co_await files_.names().lookup(caller.context, std::move(request));
  if (found) co_return entry_of(caller, parent, name, *found);
  if (found.error().code() != Code::kNotFound) co_return found.error();
  Entry none;
  none.entry_valid = beliefs_.lasts(caller, parent);
  co_return none;
}

asio::awaitable<Result<AttributesAnswer>> ClusterFileSystem::get_attributes(const Caller& caller, NodeId node,
                                                                            std::optional<Handle>) {
  if (const auto removed = removed_directories_.find(node); removed != removed_directories_.end())
    co_return AttributesAnswer{shown(removed->second), beliefs_.lasts(caller)};
  if (const proto::Attributes* made = files_.names().made(node)) co_return answer_of(caller, *made);
  if (const proto::Attributes* leased = files_.names().directory(node)) co_return answer_of(caller, *leased);
  // The kernel asks again after each write. Under a write lease all that others could do is a link to it, of which we hear.
  const Lifetime confirmed = files_.session().has_lease(node) ? beliefs_.still_confirmed(node) : Lifetime{};
  if (confirmed > Lifetime{})
    if (const auto file = files_.find(node)) co_return AttributesAnswer{shown(file->attributes()), confirmed};
  const bool is_root = node == options_.root;
  const bool remembered = is_root && last_known_.root.has_value();
  const auto found = co_await files_.calls().get(last_known_.asking(caller.context, remembered), node);
  if (found) {
    files_.names().told(*found);
    if (is_root) last_known_.root = *found;
    co_return answer_of(caller, *found);
  }
  if (remembered && LastKnown::is_away(found.error()))
    co_return AttributesAnswer{shown(*last_known_.root), Lifetime{}};
  co_return found.error();
}

asio::awaitable<Result<AttributesAnswer>> ClusterFileSystem::set_attributes(const Caller& caller, NodeId node,
                                                                            const AttributeChanges& changes) {
  proto::SetAttributesRequest request;
  *request.mutable_caller() = caller_of(caller);
  request.set_inode(node);
  if (changes.mode) request.set_mode(*changes.mode & 07777);
  if (changes.uid) request.set_uid(*changes.uid);
  if (changes.gid) request.set_gid(*changes.gid);
  if (changes.size_bytes) request.set_size(*changes.size_bytes);
  if (changes.accessed && changes.accessed->now) request.set_accessed_now(true);
  if (changes.accessed && !changes.accessed->now) request.set_accessed_ns(changes.accessed->ns);
  if (changes.modified && changes.modified->now) request.set_modified_now(true);
  if (changes.modified && !changes.modified->now) request.set_modified_ns(changes.modified->ns);
  // What changes nothing is chown(-1, -1), of which the kernel leaves only this.
  const bool owner_to_what_it_is = !changes.mode && !changes.uid && !changes.gid && !changes.size_bytes &&
                                   !changes.accessed && !changes.modified;
  request.set_kill_privileges(changes.kill_setid || owner_to_what_it_is);
  request.set_opened_for_writing(changes.handle.has_value());
  if (const auto known = files_.set_attributes(request)) {
    beliefs_.told_changed(caller, *known);
    co_return AttributesAnswer{shown(*known), beliefs_.lasts(caller)};
  }
  if (const auto file = files_.find(node)) {
    const auto changed = co_await file->set_attributes(caller.context, std::move(request));
    if (!changed) co_return changed.error();
    beliefs_.told_changed(caller, *changed);
    co_return AttributesAnswer{shown(*changed), beliefs_.lasts(caller)};
  }
  const auto changed =
      co_await files_.calls().set_attributes(caller.context, std::move(request), caller.unique);
  if (!changed) co_return changed.error();
  files_.names().told(*changed);
  co_return answer_of(caller, *changed);
}

asio::awaitable<Result<std::string>> ClusterFileSystem::read_link(const Caller& caller, NodeId node) {
  const proto::Attributes* made = files_.names().made(node);
  if (made != nullptr && made->type() == proto::Attributes::SYMLINK) co_return made->target();
  const auto found = co_await files_.calls().get(caller.context, node);
  if (!found) co_return found.error();
  if (found->type() != proto::Attributes::SYMLINK)
    co_return Status{Code::kInvalidArgument, "is no symbolic link"};
  co_return found->target();
}

// ---- names

asio::awaitable<Result<proto::Attributes>> ClusterFileSystem::make(const Caller& caller, NodeId parent,
                                                                   std::string_view name, const NewNode& node,
                                                                   bool hold) {
  proto::MakeInodeRequest request;
  KINTSUGI_CO_ASSIGN(const proto::Attributes::Type type, type_of(node.mode));
  *request.mutable_caller() = caller_of(caller);
  request.set_parent(parent);
  request.set_name(std::string(name));
  request.set_type(type);
  request.set_mode(node.mode & 07777);
  request.set_umask(node.umask);
  request.set_device(node.device);
  if (hold) request.set_hold_for(files_.session().id());
  co_return co_await files_.names().make(caller.context, std::move(request), caller.unique);
}

asio::awaitable<Result<Entry>> ClusterFileSystem::make_node(const Caller& caller, NodeId parent,
                                                            std::string_view name, const NewNode& node) {
  const auto made = co_await make(caller, parent, name, node, false);
  if (!made) co_return made.error();
  co_return entry_of(caller, parent, name, *made);
}

asio::awaitable<Result<Entry>> ClusterFileSystem::make_directory(const Caller& caller, NodeId parent,
                                                                 std::string_view name, const NewNode& node) {
  NewNode directory = node;
  directory.mode = (node.mode & 07777) | S_IFDIR;
  const auto made = co_await make(caller, parent, name, directory, false);
  if (!made) co_return made.error();
  co_return entry_of(caller, parent, name, *made);
}

asio::awaitable<Result<Entry>> ClusterFileSystem::symlink(const Caller& caller, NodeId parent,
                                                          std::string_view name, std::string_view target) {
  proto::MakeInodeRequest request;
  *request.mutable_caller() = caller_of(caller);
  request.set_parent(parent);
  request.set_name(std::string(name));
  request.set_type(proto::Attributes::SYMLINK);
  request.set_target(std::string(target));
  const auto made = co_await files_.names().make(caller.context, std::move(request), caller.unique);
  if (!made) co_return made.error();
  co_return entry_of(caller, parent, name, *made);
}

asio::awaitable<Result<Entry>> ClusterFileSystem::link(const Caller& caller, NodeId node, NodeId new_parent,
                                                       std::string_view new_name) {
  proto::LinkRequest request;
  *request.mutable_caller() = caller_of(caller);
  request.set_inode(node);
  request.set_parent(new_parent);
  request.set_name(std::string(new_name));
  const auto linked = co_await files_.names().link(caller.context, std::move(request), caller.unique);
  if (!linked) co_return linked.error();
  co_return entry_of(caller, new_parent, new_name, *linked);
}

asio::awaitable<Status> ClusterFileSystem::tell_holds(const Caller& caller) {
  if (files_.session().has_untold()) co_return co_await files_.session().tell(caller.context);
  co_return Status{};
}

asio::awaitable<Status> ClusterFileSystem::unlink(const Caller& caller, NodeId parent,
                                                  std::string_view name) {
  KINTSUGI_CO_TRY(co_await tell_holds(caller));
  proto::UnlinkRequest request;
  *request.mutable_caller() = caller_of(caller);
  request.set_parent(parent);
  request.set_name(std::string(name));
  const auto removed = co_await files_.names().unlink(caller.context, std::move(request), caller.unique);
  if (removed && *removed != 0) {
    beliefs_.forget(*removed);
  } else {
    beliefs_.any_may_have_changed();
  }
  co_return removed ? Status{} : removed.error();
}

asio::awaitable<Status> ClusterFileSystem::remove_directory(const Caller& caller, NodeId parent,
                                                            std::string_view name) {
  KINTSUGI_CO_TRY(co_await tell_holds(caller));
  proto::LookupRequest look;
  look.set_parent(parent);
  look.set_name(std::string(name));
  auto removed = co_await files_.calls().lookup(caller.context, std::move(look));
  // The kernel would take the directory that it knows by this name for dead: where that is another one, or was told by a process
  // before this one, it has to look again, which it does when it is told so.
  const auto known = directory_names_.extract({parent, std::string(name)});
  const bool another = removed && removed->type() == proto::Attributes::DIRECTORY &&
                       (!known || known.mapped() != removed->inode());
  if (another && !caller.resent) co_return Status{Code::kStale, "is another directory meanwhile"};
  proto::UnlinkRequest request;
  *request.mutable_caller() = caller_of(caller);
  request.set_parent(parent);
  request.set_name(std::string(name));
  request.set_directory(true);
  const auto unlinked = co_await files_.names().unlink(caller.context, std::move(request), caller.unique);
  if (!unlinked) co_return unlinked.error();
  if (removed) directory_is_removed(std::move(*removed));
  co_return Status{};
}

void ClusterFileSystem::directory_is_removed(proto::Attributes directory) {
  if (directory.type() != proto::Attributes::DIRECTORY) return;
  directory.set_links(0);
  if (removed_directories_.size() >= options_.remembered / kRemovedShare) removed_directories_.clear();
  removed_directories_.insert_or_assign(directory.inode(), std::move(directory));
}

asio::awaitable<Status> ClusterFileSystem::write_out_before_replacing(const Caller& caller, NodeId parent,
                                                                      std::string_view name,
                                                                      NodeId new_parent,
                                                                      std::string_view new_name) {
  const auto look = [&](NodeId directory, std::string_view entry) {
    proto::LookupRequest request;
    *request.mutable_caller() = caller_of(caller);
    request.set_parent(directory);
    request.set_name(std::string(entry));
    return files_.calls().lookup(caller.context, std::move(request));
  };
  // Whatever is wrong with the names the rename itself says.
  if (!co_await look(new_parent, new_name)) co_return Status{};
  const auto moved = co_await look(parent, name);
  if (!moved) co_return Status{};
  const auto file = files_.find(moved->inode());
  co_return file ? co_await file->flush(caller.context) : Status{};
}

asio::awaitable<Status> ClusterFileSystem::rename(const Caller& caller, NodeId parent, std::string_view name,
                                                  NodeId new_parent, std::string_view new_name,
                                                  RenameFlags flags) {
  if (flags.whiteout) co_return Status{Code::kInvalidArgument, "there are no whiteouts"};
  KINTSUGI_CO_TRY(co_await tell_holds(caller));
  if (!flags.no_replace && files_.has_dirty())
    KINTSUGI_CO_TRY(co_await write_out_before_replacing(caller, parent, name, new_parent, new_name));
  // Whoever has a directory open that is replaced goes on to see it, without a name.
  std::optional<proto::Attributes> replaced;
  if (!flags.no_replace && !flags.exchange &&
      directory_names_.contains({new_parent, std::string(new_name)})) {
    proto::LookupRequest look;
    look.set_parent(new_parent);
    look.set_name(std::string(new_name));
    auto found = co_await files_.calls().lookup(caller.context, std::move(look));
    if (found) replaced = std::move(*found);
  }
  proto::MoveRequest request;
  *request.mutable_caller() = caller_of(caller);
  request.set_parent(parent);
  request.set_name(std::string(name));
  request.set_to_parent(new_parent);
  request.set_to_name(std::string(new_name));
  request.set_no_replace(flags.no_replace);
  request.set_exchange(flags.exchange);
  const Status moved = co_await files_.names().move(caller.context, std::move(request), caller.unique);
  beliefs_.any_may_have_changed();
  KINTSUGI_CO_TRY(moved);
  if (replaced) directory_is_removed(std::move(*replaced));
  auto directory = directory_names_.extract({parent, std::string(name)});
  auto other = directory_names_.extract({new_parent, std::string(new_name)});
  if (directory) {
    directory.key() = {new_parent, std::string(new_name)};
    directory_names_.insert(std::move(directory));
  }
  if (other && flags.exchange) {
    other.key() = {parent, std::string(name)};
    directory_names_.insert(std::move(other));
  }
  co_return Status{};
}

// ---- open files

Handle ClusterFileSystem::keep(std::unique_ptr<client::OpenHandle> handle) {
  const Handle number = next_handle_++;
  auto file = std::make_shared<OpenedFile>();
  file->handle = std::move(handle);
  handles_[number] = std::move(file);
  return number;
}

Status ClusterFileSystem::check_handles() const {
  if (handles_.size() + directories_.size() < options_.open_handles) return {};
  return {Code::kLimitExceeded,
          fmt::format("{} files are open, as many as there may be", options_.open_handles)};
}

asio::awaitable<Result<ClusterFileSystem::OpenedPtr>> ClusterFileSystem::opened(const Caller& caller,
                                                                                NodeId node, Handle handle) {
  if (const auto found = handles_.find(handle); found != handles_.end()) co_return found->second;
  auto again = co_await files_.open(caller.context, node, true);
  if (!again) co_return again.error();
  // Several requests may have come for it meanwhile.
  if (const auto found = handles_.find(handle); found != handles_.end()) {
    (void)co_await (*again)->close(caller.context);
    co_return found->second;
  }
  auto file = std::make_shared<OpenedFile>();
  file->handle = std::move(*again);
  file->written = true;  // who knows
  handles_[handle] = file;
  co_return file;
}

asio::awaitable<Result<OpenAnswer>> ClusterFileSystem::open_told(const Caller& caller, proto::Attributes told,
                                                                 OpenFlags flags, bool made_now,
                                                                 const proto::OpenReadResponse* where) {
  // Said here and not only by the metaserver: what is written reaches it later.
  if ((writes(flags.flags) || (flags.flags & O_TRUNC) != 0) && (told.inode() & kSnapshotBit) != 0) {
    files_.session().hold(told.inode());
    files_.session().release(told.inode());
    co_return Status{Code::kReadOnly, "is in a snapshot"};
  }
  std::unique_ptr<client::OpenHandle> handle = files_.open(told, true, where);
  if ((flags.flags & O_TRUNC) != 0 && handle->file().size() > 0) {
    proto::SetAttributesRequest request;
    *request.mutable_caller() = caller_of(caller);
    request.set_size(0);
    request.set_opened_for_writing(true);
    request.set_kill_privileges(flags.kill_setid);
    const auto cut = co_await handle->file().set_attributes(caller.context, std::move(request));
    if (!cut) {
      (void)co_await handle->close(caller.context);
      co_return cut.error();
    }
  }
  const proto::Attributes now = handle->file().attributes();
  // Not the time of the last write, which whoever copies files sets to what it was before.
  const int64_t version = now.changed_ns();
  if (cached_.size() >= options_.remembered) cached_.clear();
  int64_t& cached = cached_[told.inode()];
  OpenAnswer answer;
  answer.keep_cache = cached == version;
  cached = version;
  // What the kernel believes of the file may be as old as its last answer: who opens it sees what others have closed. This
  // waits for no lock of the kernel, since no pages are concerned.
  if (!answer.keep_cache && !made_now && notifier_ != nullptr) {
    const runtime::Wait wait(caller.context, runtime::WaitKind::kResource,
                             runtime::named_target(caller.context, "kernel"));
    (void)co_await notifier_->invalidate_inode(told.inode(), -1, 0);
  }
  answer.direct_io = (flags.flags & O_DIRECT) != 0;
  answer.parallel_direct_writes = answer.direct_io;
  answer.handle = keep(std::move(handle));
  co_return answer;
}

asio::awaitable<Result<OpenAnswer>> ClusterFileSystem::open(const Caller& caller, NodeId node,
                                                            OpenFlags flags) {
  KINTSUGI_CO_TRY(check_handles());
  const proto::Attributes* unsent = files_.names().unsent(node);
  if (unsent && (!writes(flags.flags) || files_.session().has_lease(node))) {
    beliefs_.told(caller, *unsent);
    co_return co_await open_told(caller, *unsent, flags, true);
  }
  proto::OpenReadResponse where;
  auto told = co_await files_.calls().get(caller.context, node, true, writes(flags.flags),
                                          writes(flags.flags) ? nullptr : &where);
  if (!told) co_return told.error();
  if (told->type() == proto::Attributes::DIRECTORY) co_return Status{Code::kIsDirectory, "is a directory"};
  beliefs_.told(caller, *told);
  co_return co_await open_told(caller, std::move(*told), flags, false, &where);
}

asio::awaitable<Result<CreateAnswer>> ClusterFileSystem::create(const Caller& caller, NodeId parent,
                                                                std::string_view name, const NewNode& node,
                                                                OpenFlags flags) {
  KINTSUGI_CO_TRY(check_handles());
  auto made = co_await make(caller, parent, name, node, true);
  const bool existed = !made && made.error().code() == Code::kAlreadyExists && (flags.flags & O_EXCL) == 0;
  // The kernel looks again, checks who may open it, and lets go of the directory's lock: it is held here, and whatever tells the
  // kernel of the new name waits for it.
  if (existed) co_return Status{Code::kStale, "was made by somebody else meanwhile"};
  if (!made) co_return made.error();
  if (made->type() != proto::Attributes::FILE)
    co_return Status{made->type() == proto::Attributes::DIRECTORY ? Code::kIsDirectory : Code::kAlreadyExists,
                     "is no file"};
  KINTSUGI_CO_ASSIGN(OpenAnswer opened, co_await open_told(caller, *made, flags, true));
  co_return CreateAnswer{entry_of(caller, parent, name, *made), std::move(opened)};
}

asio::awaitable<Result<CreateAnswer>> ClusterFileSystem::create_nameless(const Caller& caller, NodeId parent,
                                                                         const NewNode& node,
                                                                         OpenFlags flags) {
  KINTSUGI_CO_TRY(check_handles());
  NewNode file = node;
  file.mode = (node.mode & 07777) | S_IFREG;
  const auto made = co_await make(caller, parent, "", file, true);
  if (!made) co_return made.error();
  KINTSUGI_CO_ASSIGN(OpenAnswer opened, co_await open_told(caller, *made, flags, true));
  co_return CreateAnswer{entry_of(caller, parent, {}, *made), std::move(opened)};
}

asio::awaitable<Result<ReadAnswer>> ClusterFileSystem::read(const Caller& caller, NodeId node,
                                                            const ReadRequest& request) {
  KINTSUGI_CO_ASSIGN(const OpenedPtr file, co_await opened(caller, node, request.handle));
  runtime::Buffer buffer = buffers_.try_acquire();
  if (!buffer) {
    const runtime::Wait wait(caller.context, runtime::WaitKind::kResource,
                             runtime::named_target(caller.context, "buffers"));
    KINTSUGI_CO_ASSIGN(buffer, co_await buffers_.acquire(TimePoint::max()));
  }
  const auto into = buffer.first(std::min<size_t>(request.bytes, buffer.size()));
  const auto bytes = co_await file->handle->file().read(caller.context, request.offset, into);
  if (!bytes) co_return bytes.error();
  ReadAnswer answer;
  answer.ranges.push_back(into.first(*bytes));
  answer.owner = std::make_shared<runtime::Buffer>(std::move(buffer));
  co_return answer;
}

asio::awaitable<Result<uint32_t>> ClusterFileSystem::write(const Caller& caller, NodeId node,
                                                           const WriteRequest& request) {
  KINTSUGI_CO_ASSIGN(const OpenedPtr file, co_await opened(caller, node, request.handle));
  client::OpenHandle& handle = *file->handle;
  file->written = true;
  const bool kills = request.kill_setid && (handle.file().attributes().mode() & kSetIdBits) != 0;
  Status written;
  if ((request.flags & O_APPEND) != 0 && !request.from_page_cache) {
    // The kernel sends it again when this process is killed: the next one must not append it behind itself.
    const auto at =
        co_await handle.file().append(caller.context, request.data, request.kill_setid, caller.unique);
    if (!at) written = at.error();
  } else {
    written = co_await handle.file().write(caller.context, request.offset, request.data, request.kill_setid);
  }
  if (written.ok() && (request.flags & (O_SYNC | O_DSYNC)) != 0)
    written = co_await handle.sync(caller.context);
  // After a direct write the kernel goes on to believe the mode. Attributes alone wait for none of its locks.
  if (kills && notifier_ != nullptr) (void)co_await notifier_->invalidate_inode(node, -1, 0);
  if (!written.ok()) co_return written;
  co_return static_cast<uint32_t>(request.data.size());
}

asio::awaitable<Status> ClusterFileSystem::flush(const Caller& caller, NodeId node, Handle handle,
                                                 LockOwner owner) {
  KINTSUGI_CO_ASSIGN(const OpenedPtr file, co_await opened(caller, node, handle));
  if (files_.session().has_locks(node, false, owner)) (void)co_await unlock(caller, node, owner, false);
  // Under a write lease it may wait a little: who opens the file elsewhere has it written out first.
  if (files_.session().has_lease(node)) co_return file->handle->check();
  if (!std::exchange(file->written, false)) co_return file->handle->check();
  co_return co_await file->handle->sync(caller.context);
}

asio::awaitable<Status> ClusterFileSystem::release(const Caller& caller, NodeId node,
                                                   const ReleaseRequest& request) {
  if (request.unlock_flock) (void)co_await unlock(caller, node, request.lock_owner, true);
  const auto found = handles_.find(request.handle);
  if (found == handles_.end()) co_return Status{};
  const OpenedPtr file = found->second;
  handles_.erase(found);
  for (const LockOwner owner : file->lock_owners)
    if (files_.session().has_locks(node, false, owner)) (void)co_await unlock(caller, node, owner, false);
  // Else others may have changed it since it was opened, which the pages do not show.
  if (files_.session().has_lease(node)) {
    if (cached_.size() >= options_.remembered) cached_.clear();
    cached_[node] = file->handle->file().attributes().changed_ns();
  }
  co_return co_await file->handle->close(caller.context);
}

asio::awaitable<Status> ClusterFileSystem::fsync(const Caller& caller, NodeId node, Handle handle, bool) {
  KINTSUGI_CO_ASSIGN(const OpenedPtr file, co_await opened(caller, node, handle));
  co_return co_await file->handle->sync(caller.context);
}

asio::awaitable<Status> ClusterFileSystem::allocate(const Caller& caller, NodeId node, Handle handle,
                                                    int mode, uint64_t offset, uint64_t bytes) {
  constexpr int kKnown = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE;
  if ((mode & ~kKnown) != 0) co_return Status{Code::kNotSupported, "ranges are not inserted or collapsed"};
  KINTSUGI_CO_ASSIGN(const OpenedPtr file, co_await opened(caller, node, handle));
  file->written = true;
  client::AllocateMode how;
  how.keep_size = (mode & FALLOC_FL_KEEP_SIZE) != 0;
  how.punch_hole = (mode & FALLOC_FL_PUNCH_HOLE) != 0;
  how.zero_range = (mode & FALLOC_FL_ZERO_RANGE) != 0;
  co_return co_await file->handle->file().allocate(caller.context, how, offset, bytes);
}

asio::awaitable<Result<uint64_t>> ClusterFileSystem::seek(const Caller& caller, NodeId node, Handle handle,
                                                          uint64_t offset, SeekTo what) {
  KINTSUGI_CO_ASSIGN(const OpenedPtr file, co_await opened(caller, node, handle));
  client::OpenFile& open = file->handle->file();
  const auto found = what == SeekTo::kData ? co_await open.seek_data(caller.context, offset)
                                           : co_await open.seek_hole(caller.context, offset);
  if (found) co_return *found;
  const Code code = found.error().code();
  if (code == Code::kNoData || code == Code::kRange)
    co_return Status{Code::kNoDevice, found.error().message()};
  co_return found.error();
}

asio::awaitable<Result<uint64_t>> ClusterFileSystem::copy_range(const Caller& caller,
                                                                const CopyRange& range) {
  KINTSUGI_CO_ASSIGN(const OpenedPtr from, co_await opened(caller, range.from, range.from_handle));
  KINTSUGI_CO_ASSIGN(const OpenedPtr to, co_await opened(caller, range.to, range.to_handle));
  to->written = true;
  co_return co_await to->handle->file().copy_range(caller.context, from->handle->file(), range.from_offset,
                                                   range.to_offset, range.bytes);
}

// ---- directories

asio::awaitable<Result<OpenAnswer>> ClusterFileSystem::open_directory(const Caller& caller, NodeId,
                                                                      OpenFlags) {
  KINTSUGI_CO_TRY(check_handles());
  OpenAnswer answer;
  answer.handle = next_handle_++;
  directories_[answer.handle] = std::make_shared<DirectoryCookies>(cookie_budget_);
  co_return answer;
}

asio::awaitable<Status> ClusterFileSystem::read_directory(const Caller& caller, NodeId node, Handle handle,
                                                          uint64_t cookie, bool plus,
                                                          DirectoryListing& into) {
  {
    const runtime::Wait wait(caller.context, runtime::WaitKind::kResource,
                             runtime::named_target(caller.context, "listings"));
    KINTSUGI_CO_TRY(co_await listings_.acquire(TimePoint::max()));
  }
  const Status listed = co_await list_entries(caller, node, handle, cookie, plus, into);
  listings_.release();
  co_return listed;
}

asio::awaitable<Status> ClusterFileSystem::list_entries(const Caller& caller, NodeId node, Handle handle,
                                                        uint64_t cookie, bool plus, DirectoryListing& into) {
  constexpr size_t kUsualName = 24;
  auto& kept = directories_[handle];
  if (!kept) kept = std::make_shared<DirectoryCookies>(cookie_budget_);
  const std::shared_ptr<DirectoryCookies> cookies = kept;
  for (uint64_t special = cookie + 1; special <= kSpecialEntries; ++special) {
    DirectoryEntry entry;
    entry.name = special == 1 ? "." : "..";
    entry.cookie = special;
    entry.entry.attributes.inode = special == 1 ? node : kRootNode;
    entry.entry.attributes.mode = S_IFDIR;
    if (!into.add(entry)) co_return Status{};
  }
  uint64_t at = cookie > kSpecialEntries ? cookie - kSpecialEntries : 0;
  auto [name, skip] = cookies->behind(at);
  while (true) {
    proto::ListInodeRequest request;
    request.set_directory(node);
    request.set_after(name);
    request.set_limit(static_cast<uint32_t>(std::clamp<size_t>(into.room(kUsualName) + skip, 1, 2000)));
    request.set_names_only(!plus);
    const auto page = co_await files_.calls().list(caller.context, std::move(request));
    // One that was removed while it is open has nothing in it.
    if (!page && page.error().code() == Code::kStale) co_return Status{};
    if (!page) co_return page.error();
    for (const proto::DirectoryEntry& listed : page->entries()) {
      name = listed.name();
      if (skip > 0) {
        --skip;
        continue;
      }
      DirectoryEntry entry;
      entry.name = listed.name();
      entry.cookie = cookies->add(at, listed.name()) + kSpecialEntries;
      if (plus) {
        entry.entry = entry_of(caller, node, listed.name(), listed.attributes());
      } else {
        entry.entry.attributes.inode = listed.attributes().inode();
        entry.entry.attributes.mode = client::type_bits(listed.attributes().type());
      }
      if (!into.add(entry)) co_return Status{};
      ++at;
    }
    if (!page->more()) co_return Status{};
  }
}

asio::awaitable<Status> ClusterFileSystem::release_directory(const Caller& caller, NodeId, Handle handle) {
  directories_.erase(handle);
  co_return Status{};
}

asio::awaitable<Status> ClusterFileSystem::fsync_directory(const Caller& caller, NodeId, Handle, bool) {
  co_return co_await files_.names().flush(caller.context);
}

asio::awaitable<Result<FileSystemSpace>> ClusterFileSystem::space(const Caller& caller, NodeId node) {
  const Context context = last_known_.asking(caller.context, last_known_.space.has_value());
  const auto told = co_await cluster_space(context);
  if (!told && last_known_.space && LastKnown::is_away(told.error())) co_return *last_known_.space;
  if (!told) co_return told.error();
  FileSystemSpace space = *told;
  last_known_.space = space;
  // Where quotas hold there is no more room than they leave. What cannot be asked for one limits nothing here.
  const auto limits = co_await client_.quotas_of(node, context);
  if (!limits) co_return space;
  for (const proto::Quota& quota : limits->quotas()) {
    if (quota.has_max_bytes()) {
      const uint64_t left = quota.max_bytes() - std::min(quota.bytes(), quota.max_bytes());
      space.total_blocks = std::min(space.total_blocks, quota.max_bytes() / kBlockBytes);
      space.free_blocks = space.available_blocks = std::min(space.free_blocks, left / kBlockBytes);
    }
    if (quota.has_max_files()) {
      space.files = std::min(space.files, quota.max_files());
      space.free_files =
          std::min(space.free_files, quota.max_files() - std::min(quota.files(), quota.max_files()));
    }
  }
  co_return space;
}

asio::awaitable<Result<FileSystemSpace>> ClusterFileSystem::cluster_space(Context context) {
  if (space_ && runtime_.clock.now() - space_->first < kSpaceKnownFor) co_return space_->second;
  const auto free = co_await client_.disk_free(context);
  if (!free) co_return free.error();
  FileSystemSpace space;
  space.block_bytes = space.fragment_bytes = kBlockBytes;
  // Bytes of files, not of disks: what the code adds is not the user's.
  const double share = free->free_bytes() == 0 ? 0
                                               : static_cast<double>(free->storable_bytes()) /
                                                     static_cast<double>(free->free_bytes());
  const auto total = static_cast<uint64_t>(static_cast<double>(free->total_bytes()) * share);
  space.free_blocks = space.available_blocks = free->storable_bytes() / kBlockBytes;
  space.total_blocks = std::max(total / kBlockBytes, space.free_blocks);
  space.files = free->files() + (uint64_t{1} << 40);
  space.free_files = uint64_t{1} << 40;
  space_.emplace(runtime_.clock.now(), space);
  co_return space;
}

// ---- extended attributes

asio::awaitable<Status> ClusterFileSystem::set_xattr(const Caller& caller, NodeId node, std::string_view name,
                                                     std::span<const std::byte> value, SetXattrMode mode,
                                                     bool kill_setgid) {
  proto::SetXattrRequest request;
  *request.mutable_caller() = caller_of(caller);
  request.set_inode(node);
  request.set_name(std::string(name));
  request.set_value(std::string(reinterpret_cast<const char*>(value.data()), value.size()));
  request.set_create(mode == SetXattrMode::kCreate || mode == SetXattrMode::kCreateAndReplace);
  request.set_replace(mode == SetXattrMode::kReplace || mode == SetXattrMode::kCreateAndReplace);
  request.set_kill_set_gid(kill_setgid);
  // What is made there may inherit from it.
  if (files_.names().is_leased(node)) files_.give_back(node);
  beliefs_.forget(node);
  const Status set = co_await files_.calls().set_xattr(caller.context, std::move(request), caller.unique);
  beliefs_.forget(node);
  co_return set;
}

asio::awaitable<Result<std::string>> ClusterFileSystem::get_xattr(const Caller& caller, NodeId node,
                                                                  std::string_view name) {
  // Of these the kernel asks without being asked; other names may be wrong, which the metaserver knows.
  const bool of_system = name == "system.posix_acl_access" || name == "system.posix_acl_default" ||
                         (name.starts_with("security.") && name != "security.");
  if (of_system && beliefs_.is_without_xattrs(node)) co_return Status{Code::kNoData, "has no such attribute"};
  proto::GetXattrRequest request;
  *request.mutable_caller() = caller_of(caller);
  request.set_inode(node);
  request.set_name(std::string(name));
  co_return co_await files_.calls().get_xattr(caller.context, std::move(request));
}

asio::awaitable<Result<std::vector<std::string>>> ClusterFileSystem::list_xattrs(const Caller& caller,
                                                                                 NodeId node) {
  return files_.calls().list_xattrs(caller.context, node);
}

asio::awaitable<Status> ClusterFileSystem::remove_xattr(const Caller& caller, NodeId node,
                                                        std::string_view name) {
  proto::SetXattrRequest request;
  *request.mutable_caller() = caller_of(caller);
  request.set_inode(node);
  request.set_name(std::string(name));
  request.set_remove(true);
  const Status removed = co_await files_.calls().set_xattr(caller.context, std::move(request), caller.unique);
  beliefs_.any_may_have_changed();
  co_return removed;
}

// ---- locks

proto::LockRequest ClusterFileSystem::lock_request(NodeId node, const LockRequest& request) const {
  proto::LockRequest wanted;
  wanted.set_inode(node);
  wanted.set_whole_file(request.flock);
  proto::FileLock& lock = *wanted.mutable_lock();
  lock.set_type(request.lock.type == LockType::kRead    ? proto::FileLock::SHARED
                : request.lock.type == LockType::kWrite ? proto::FileLock::EXCLUSIVE
                                                        : proto::FileLock::NONE);
  lock.set_begin(request.flock ? 0 : request.lock.start);
  lock.set_end(request.flock ? kLockEnd : std::min(request.lock.end, kLockEnd));
  lock.set_session(files_.session().id());
  lock.set_owner(request.owner);
  lock.set_pid(request.lock.pid);
  return wanted;
}

asio::awaitable<Status> ClusterFileSystem::unlock(const Caller& caller, NodeId node, LockOwner owner,
                                                  bool whole_file) {
  LockRequest request;
  request.owner = owner;
  request.flock = whole_file;
  const auto done = co_await files_.locks().lock(caller.context, lock_request(node, request));
  co_return done ? Status{} : done.error();
}

asio::awaitable<Result<Lock>> ClusterFileSystem::get_lock(const Caller& caller, NodeId node,
                                                          const LockRequest& request) {
  proto::LockRequest wanted = lock_request(node, request);
  wanted.set_test_only(true);
  const auto found = co_await files_.locks().lock(caller.context, std::move(wanted));
  if (!found) co_return found.error();
  Lock lock;
  if (found->granted()) co_return lock;
  const proto::FileLock& other = found->conflict();
  lock.type = other.type() == proto::FileLock::SHARED ? LockType::kRead : LockType::kWrite;
  lock.start = other.begin();
  lock.end = other.end();
  lock.pid = other.session() == files_.session().id() ? other.pid() : 0;
  co_return lock;
}

asio::awaitable<Status> ClusterFileSystem::set_lock(const Caller& caller, NodeId node,
                                                    const LockRequest& request) {
  const bool takes = !request.flock && request.lock.type != LockType::kUnlock;
  if (const auto file = handles_.find(request.handle); takes && file != handles_.end())
    file->second->lock_owners.insert(request.owner);
  for (Duration pause = kFirstLockPause;; pause = std::min(2 * pause, kLongestLockPause)) {
    proto::LockRequest wanted = lock_request(node, request);
    wanted.set_waits(request.wait);
    const auto answer = co_await files_.locks().lock(caller.context, std::move(wanted));
    if (!answer) co_return answer.error();
    if (answer->granted()) {
      if (caller.interrupt->abandoned()) (void)co_await unlock(caller, node, request.owner, request.flock);
      co_return Status{};
    }
    if (!request.wait) co_return Status{Code::kWouldBlock, "somebody else has the lock"};
    const Status interrupted{Code::kInterrupted, "the wait for a lock was interrupted"};
    if (caller.interrupt->requested()) co_return interrupted;
    const runtime::Wait wait(caller.context, runtime::WaitKind::kTimer);
    if (!co_await tasks_.sleep_for(pause)) co_return interrupted;
    if (caller.interrupt->requested()) co_return interrupted;
  }
}

}  // namespace kintsugi::mount
