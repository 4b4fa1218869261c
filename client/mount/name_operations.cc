#include "client/mount/name_operations.h"

#include <sys/stat.h>

#include "client/mount/request_caller.h"

namespace kintsugi::mount {
namespace {

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

}  // namespace

asio::awaitable<Result<Entry>> NameOperations::lookup(const Caller& caller, NodeId parent,
                                                      std::string_view name) {
  proto::LookupRequest request;
  request.set_parent(parent);
  request.set_name(std::string(name));
  const auto found = co_await files_.names().lookup(caller.context, std::move(request));
  if (found) co_return told_.entry_of(caller, parent, name, *found);
  if (found.error().code() != Code::kNotFound) co_return found.error();
  Entry none;
  none.entry_valid = beliefs_.lasts(caller, parent);
  co_return none;
}

asio::awaitable<Result<proto::Attributes>> NameOperations::make(const Caller& caller, NodeId parent,
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

asio::awaitable<Result<Entry>> NameOperations::make_node(const Caller& caller, NodeId parent,
                                                         std::string_view name, const NewNode& node) {
  const auto made = co_await make(caller, parent, name, node, false);
  if (!made) co_return made.error();
  co_return told_.entry_of(caller, parent, name, *made);
}

asio::awaitable<Result<Entry>> NameOperations::make_directory(const Caller& caller, NodeId parent,
                                                              std::string_view name, const NewNode& node) {
  NewNode directory = node;
  directory.mode = (node.mode & 07777) | S_IFDIR;
  const auto made = co_await make(caller, parent, name, directory, false);
  if (!made) co_return made.error();
  co_return told_.entry_of(caller, parent, name, *made);
}

asio::awaitable<Result<Entry>> NameOperations::symlink(const Caller& caller, NodeId parent,
                                                       std::string_view name, std::string_view target) {
  proto::MakeInodeRequest request;
  *request.mutable_caller() = caller_of(caller);
  request.set_parent(parent);
  request.set_name(std::string(name));
  request.set_type(proto::Attributes::SYMLINK);
  request.set_target(std::string(target));
  const auto made = co_await files_.names().make(caller.context, std::move(request), caller.unique);
  if (!made) co_return made.error();
  co_return told_.entry_of(caller, parent, name, *made);
}

asio::awaitable<Result<Entry>> NameOperations::link(const Caller& caller, NodeId node, NodeId new_parent,
                                                    std::string_view new_name) {
  proto::LinkRequest request;
  *request.mutable_caller() = caller_of(caller);
  request.set_inode(node);
  request.set_parent(new_parent);
  request.set_name(std::string(new_name));
  const auto linked = co_await files_.names().link(caller.context, std::move(request), caller.unique);
  if (!linked) co_return linked.error();
  co_return told_.entry_of(caller, new_parent, new_name, *linked);
}

asio::awaitable<Status> NameOperations::tell_holds(const Caller& caller) {
  if (files_.session().has_untold()) co_return co_await files_.session().tell(caller.context);
  co_return Status{};
}

asio::awaitable<Status> NameOperations::unlink(const Caller& caller, NodeId parent, std::string_view name) {
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

asio::awaitable<Status> NameOperations::remove_directory(const Caller& caller, NodeId parent,
                                                         std::string_view name) {
  KINTSUGI_CO_TRY(co_await tell_holds(caller));
  proto::LookupRequest look;
  look.set_parent(parent);
  look.set_name(std::string(name));
  auto removed = co_await files_.calls().lookup(caller.context, std::move(look));
  // The kernel would take the directory that it knows by this name for dead: where that is another one, or was told by
  // a process before this one, it has to look again, which it does when it is told so.
  const auto known = told_.directory(parent, name);
  told_.name_is_removed(parent, name);
  const bool another =
      removed && removed->type() == proto::Attributes::DIRECTORY && (!known || *known != removed->inode());
  if (another && !caller.resent) co_return Status{Code::kStale, "is another directory meanwhile"};
  proto::UnlinkRequest request;
  *request.mutable_caller() = caller_of(caller);
  request.set_parent(parent);
  request.set_name(std::string(name));
  request.set_directory(true);
  const auto unlinked = co_await files_.names().unlink(caller.context, std::move(request), caller.unique);
  if (!unlinked) co_return unlinked.error();
  if (removed) told_.directory_is_removed(std::move(*removed));
  co_return Status{};
}

asio::awaitable<Status> NameOperations::write_out_before_replacing(const Caller& caller, NodeId parent,
                                                                   std::string_view name, NodeId new_parent,
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

asio::awaitable<Status> NameOperations::rename(const Caller& caller, NodeId parent, std::string_view name,
                                               NodeId new_parent, std::string_view new_name,
                                               RenameFlags flags) {
  KINTSUGI_CO_TRY(co_await tell_holds(caller));
  if (!flags.no_replace && files_.has_dirty())
    KINTSUGI_CO_TRY(co_await write_out_before_replacing(caller, parent, name, new_parent, new_name));
  // Whoever has a directory open that is replaced continues to see it, without a name.
  std::optional<proto::Attributes> replaced;
  if (!flags.no_replace && !flags.exchange && told_.directory(new_parent, new_name)) {
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
  // A directory that has another name was changed by that, and so was the one that it was exchanged with.
  for (const auto& directory : {told_.directory(parent, name), told_.directory(new_parent, new_name)})
    if (directory) files_.names().may_have_changed(*directory);
  beliefs_.any_may_have_changed();
  KINTSUGI_CO_TRY(moved);
  if (replaced) told_.directory_is_removed(std::move(*replaced));
  told_.name_is_moved({parent, std::string(name)}, {new_parent, std::string(new_name)}, flags.exchange);
  co_return Status{};
}

}  // namespace kintsugi::mount
