#include "client/mount/cluster_file_system.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "client/mount/kernel/protocol.h"

namespace kintsugi::mount {

ClusterFileSystem::ClusterFileSystem(const runtime::Runtime& runtime, client::Client& client,
                                     client::OpenFiles& files, Notifier* notifier,
                                     ClusterFileSystemOptions options)
    : client_(client),
      files_(files),
      options_(options),
      tasks_(runtime),
      last_known_(runtime.clock),
      beliefs_(runtime, files.session(), notifier, tasks_, {options.cached_for, options.remembered}),
      pages_(notifier, options.remembered),
      told_(files, beliefs_, pages_, options.remembered),
      handles_(runtime, files, {options.open_handles, options.listing_positions}),
      attribute_operations_(files, beliefs_, told_, pages_, last_known_, options.root),
      name_operations_(files, beliefs_, told_),
      directory_operations_(runtime, files, told_, handles_),
      lock_operations_(runtime.random, files, handles_, tasks_),
      file_operations_(runtime, files, beliefs_, handles_, pages_, lock_operations_),
      space_operations_(runtime.clock, client, last_known_) {}

ClusterFileSystem::~ClusterFileSystem() = default;

void ClusterFileSystem::started(const Negotiated& negotiated) {
  beliefs_.can_expire_names((negotiated.flags & FUSE_HAS_EXPIRE_ONLY) != 0);
  tasks_.spawn(learn());
}

asio::awaitable<void> ClusterFileSystem::learn() {
  const Context context = last_known_.asking(client_.context(), true);
  if (const auto root = co_await files_.calls().get(context, options_.root)) last_known_.root = *root;
  co_await space_operations_.learn(context);
}

asio::awaitable<void> ClusterFileSystem::close_all() {
  co_await tasks_.stop();
  co_await handles_.close_all(client_.context());
}

ClusterFileSystem::Held ClusterFileSystem::held() const {
  return {.inodes = beliefs_.count(),
          .names = told_.names(),
          .contents = pages_.count(),
          .kept = told_.kept(),
          .positions = handles_.listing_positions(),
          .handles = handles_.count()};
}

void ClusterFileSystem::forget(NodeId node, uint64_t lookups) {
  told_.forget(node, lookups);
}

asio::awaitable<Result<CreateAnswer>> ClusterFileSystem::create(const Caller& caller, NodeId parent,
                                                                std::string_view name, const NewNode& node,
                                                                OpenFlags flags) {
  KINTSUGI_CO_TRY(handles_.check_room());
  auto made = co_await name_operations_.make(caller, parent, name, node, true);
  const bool existed = !made && made.error().code() == Code::kAlreadyExists && (flags.flags & O_EXCL) == 0;
  // The kernel looks again, checks who may open it, and lets go of the directory's lock: it is held here, and whatever
  // tells the kernel of the new name waits for it.
  if (existed) co_return Status{Code::kStale, "was made by somebody else meanwhile"};
  if (!made) co_return made.error();
  if (made->type() != proto::Attributes::FILE)
    co_return Status{made->type() == proto::Attributes::DIRECTORY ? Code::kIsDirectory : Code::kAlreadyExists,
                     "is no file"};
  KINTSUGI_CO_ASSIGN(OpenAnswer opened, co_await file_operations_.open_told(caller, *made, flags, true));
  co_return CreateAnswer{told_.entry_of(caller, parent, name, *made), std::move(opened)};
}

asio::awaitable<Result<CreateAnswer>> ClusterFileSystem::create_nameless(const Caller& caller, NodeId parent,
                                                                         const NewNode& node,
                                                                         OpenFlags flags) {
  KINTSUGI_CO_TRY(handles_.check_room());
  NewNode file = node;
  file.mode = (node.mode & 07777) | S_IFREG;
  const auto made = co_await name_operations_.make(caller, parent, "", file, true);
  if (!made) co_return made.error();
  KINTSUGI_CO_ASSIGN(OpenAnswer opened, co_await file_operations_.open_told(caller, *made, flags, true));
  co_return CreateAnswer{told_.entry_of(caller, parent, {}, *made), std::move(opened)};
}

// ---- what the parts do

asio::awaitable<Result<Entry>> ClusterFileSystem::lookup(const Caller& caller, NodeId parent,
                                                         std::string_view name) {
  return name_operations_.lookup(caller, parent, name);
}

asio::awaitable<Result<AttributesAnswer>> ClusterFileSystem::get_attributes(const Caller& caller,
                                                                            NodeId node) {
  return attribute_operations_.get_attributes(caller, node);
}

asio::awaitable<Result<AttributesAnswer>> ClusterFileSystem::set_attributes(const Caller& caller, NodeId node,
                                                                            const AttributeChanges& changes) {
  return attribute_operations_.set_attributes(caller, node, changes);
}

asio::awaitable<Result<std::string>> ClusterFileSystem::read_link(const Caller& caller, NodeId node) {
  return attribute_operations_.read_link(caller, node);
}

asio::awaitable<Result<Entry>> ClusterFileSystem::make_node(const Caller& caller, NodeId parent,
                                                            std::string_view name, const NewNode& node) {
  return name_operations_.make_node(caller, parent, name, node);
}

asio::awaitable<Result<Entry>> ClusterFileSystem::make_directory(const Caller& caller, NodeId parent,
                                                                 std::string_view name, const NewNode& node) {
  return name_operations_.make_directory(caller, parent, name, node);
}

asio::awaitable<Result<Entry>> ClusterFileSystem::symlink(const Caller& caller, NodeId parent,
                                                          std::string_view name, std::string_view target) {
  return name_operations_.symlink(caller, parent, name, target);
}

asio::awaitable<Result<Entry>> ClusterFileSystem::link(const Caller& caller, NodeId node, NodeId new_parent,
                                                       std::string_view new_name) {
  return name_operations_.link(caller, node, new_parent, new_name);
}

asio::awaitable<Status> ClusterFileSystem::unlink(const Caller& caller, NodeId parent,
                                                  std::string_view name) {
  return name_operations_.unlink(caller, parent, name);
}

asio::awaitable<Status> ClusterFileSystem::remove_directory(const Caller& caller, NodeId parent,
                                                            std::string_view name) {
  return name_operations_.remove_directory(caller, parent, name);
}

asio::awaitable<Status> ClusterFileSystem::rename(const Caller& caller, NodeId parent, std::string_view name,
                                                  NodeId new_parent, std::string_view new_name,
                                                  RenameFlags flags) {
  return name_operations_.rename(caller, parent, name, new_parent, new_name, flags);
}

asio::awaitable<Result<OpenAnswer>> ClusterFileSystem::open(const Caller& caller, NodeId node,
                                                            OpenFlags flags) {
  return file_operations_.open(caller, node, flags);
}

asio::awaitable<Result<ReadAnswer>> ClusterFileSystem::read(const Caller& caller, NodeId node,
                                                            const ReadRequest& request) {
  return file_operations_.read(caller, node, request);
}

asio::awaitable<Result<uint32_t>> ClusterFileSystem::write(const Caller& caller, NodeId node,
                                                           const WriteRequest& request) {
  return file_operations_.write(caller, node, request);
}

asio::awaitable<Status> ClusterFileSystem::flush(const Caller& caller, NodeId node, Handle handle,
                                                 LockOwner owner) {
  return file_operations_.flush(caller, node, handle, owner);
}

asio::awaitable<Status> ClusterFileSystem::release(const Caller& caller, NodeId node,
                                                   const ReleaseRequest& request) {
  return file_operations_.release(caller, node, request);
}

asio::awaitable<Status> ClusterFileSystem::fsync(const Caller& caller, NodeId node, Handle handle) {
  return file_operations_.fsync(caller, node, handle);
}

asio::awaitable<Result<OpenAnswer>> ClusterFileSystem::open_directory(const Caller& caller, NodeId node) {
  return directory_operations_.open_directory(caller, node);
}

asio::awaitable<Status> ClusterFileSystem::read_directory(const Caller& caller, NodeId node, Handle handle,
                                                          uint64_t cookie, bool plus,
                                                          DirectoryListing& into) {
  return directory_operations_.read_directory(caller, node, handle, cookie, plus, into);
}

asio::awaitable<Status> ClusterFileSystem::release_directory(const Caller& caller, NodeId node,
                                                             Handle handle) {
  return directory_operations_.release_directory(caller, node, handle);
}

asio::awaitable<Status> ClusterFileSystem::fsync_directory(const Caller& caller, NodeId) {
  return directory_operations_.fsync_directory(caller);
}

asio::awaitable<Result<FileSystemSpace>> ClusterFileSystem::space(const Caller& caller, NodeId node) {
  return space_operations_.space(caller, node);
}

asio::awaitable<Status> ClusterFileSystem::set_xattr(const Caller& caller, NodeId node, std::string_view name,
                                                     std::span<const std::byte> value, SetXattrFlags flags) {
  return attribute_operations_.set_xattr(caller, node, name, value, flags);
}

asio::awaitable<Result<std::string>> ClusterFileSystem::get_xattr(const Caller& caller, NodeId node,
                                                                  std::string_view name) {
  return attribute_operations_.get_xattr(caller, node, name);
}

asio::awaitable<Result<std::vector<std::string>>> ClusterFileSystem::list_xattrs(const Caller& caller,
                                                                                 NodeId node) {
  return attribute_operations_.list_xattrs(caller, node);
}

asio::awaitable<Status> ClusterFileSystem::remove_xattr(const Caller& caller, NodeId node,
                                                        std::string_view name) {
  return attribute_operations_.remove_xattr(caller, node, name);
}

asio::awaitable<Result<Lock>> ClusterFileSystem::get_lock(const Caller& caller, NodeId node,
                                                          const LockRequest& request) {
  return lock_operations_.get_lock(caller, node, request);
}

asio::awaitable<Status> ClusterFileSystem::set_lock(const Caller& caller, NodeId node,
                                                    const LockRequest& request) {
  return lock_operations_.set_lock(caller, node, request);
}

asio::awaitable<Status> ClusterFileSystem::allocate(const Caller& caller, NodeId node, Handle handle,
                                                    int mode, uint64_t offset, uint64_t bytes) {
  return file_operations_.allocate(caller, node, handle, mode, offset, bytes);
}

asio::awaitable<Result<uint64_t>> ClusterFileSystem::seek(const Caller& caller, NodeId node, Handle handle,
                                                          uint64_t offset, SeekTo what) {
  return file_operations_.seek(caller, node, handle, offset, what);
}

asio::awaitable<Result<uint64_t>> ClusterFileSystem::copy_range(const Caller& caller,
                                                                const CopyRange& range) {
  return file_operations_.copy_range(caller, range);
}

}  // namespace kintsugi::mount
