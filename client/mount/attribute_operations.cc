#include "client/mount/attribute_operations.h"

#include "client/mount/request_caller.h"

namespace kintsugi::mount {

asio::awaitable<Result<AttributesAnswer>> AttributeOperations::get_attributes(const Caller& caller,
                                                                              NodeId node) {
  auto answer = co_await find_attributes(caller, node);
  const auto file = files_.find(node);
  // The kernel asks before it reads what it has, if it may not believe what it was told before.
  if (answer && file && pages_.are_old(*file)) {
    const runtime::Wait wait(caller.context, runtime::WaitKind::kResource,
                             runtime::named_target(caller.context, "kernel"));
    co_await pages_.drop_old(*file);
  }
  co_return answer;
}

asio::awaitable<Result<AttributesAnswer>> AttributeOperations::find_attributes(const Caller& caller,
                                                                               NodeId node) {
  if (const proto::Attributes* removed = told_.removed_directory(node))
    co_return AttributesAnswer{ToldInodes::shown(*removed), beliefs_.lasts(caller)};
  if (const proto::Attributes* made = files_.names().made(node)) co_return told_.answer_of(caller, *made);
  if (const proto::Attributes* leased = files_.names().directory(node))
    co_return told_.answer_of(caller, *leased);
  // The kernel asks again after each write. Under a write lease all that others could do is a link to it, of which we
  // hear.
  const Lifetime confirmed = files_.session().has_lease(node) ? beliefs_.still_confirmed(node) : Lifetime{};
  if (confirmed > Lifetime{})
    if (const auto file = files_.find(node)) {
      AttributesAnswer answer = told_.answer_of_open(caller, *file, false);
      if (answer.valid != Lifetime{}) answer.valid = confirmed;
      co_return answer;
    }
  const bool is_root = node == root_;
  const bool remembered = is_root && last_known_.root.has_value();
  const auto found = co_await files_.calls().get(last_known_.asking(caller.context, remembered), node);
  if (found) {
    files_.names().told(*found);
    if (is_root) last_known_.root = *found;
    co_return told_.answer_of(caller, *found);
  }
  if (remembered && LastKnown::is_away(found.error()))
    co_return AttributesAnswer{ToldInodes::shown(*last_known_.root), Lifetime{}};
  const proto::Attributes* special = told_.special(node);
  if (special != nullptr && found.error().code() == Code::kStale) {
    AttributesAnswer without_name{ToldInodes::shown(*special), beliefs_.lasts(caller)};
    without_name.attributes.links = 0;
    co_return without_name;
  }
  co_return found.error();
}

asio::awaitable<Result<AttributesAnswer>> AttributeOperations::set_attributes(
    const Caller& caller, NodeId node, const AttributeChanges& changes) {
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
  // A request that changes nothing is what the kernel makes of chown(-1, -1).
  const bool owner_to_what_it_is = !changes.mode && !changes.uid && !changes.gid && !changes.size_bytes &&
                                   !changes.accessed && !changes.modified;
  request.set_kill_privileges(changes.kill_setid || owner_to_what_it_is);
  request.set_opened_for_writing(changes.handle.has_value());
  const auto file = files_.find(node);
  const int64_t before = file ? file->attributes().changed_ns() : 0;
  if (const auto known = files_.set_attributes(request)) {
    if (file) pages_.attributes_set(node, before, known->changed_ns());
    told_.remember_special(*known);
    beliefs_.told_changed(caller, *known);
    if (file) co_return told_.answer_of_open(caller, *file, true);
    co_return AttributesAnswer{ToldInodes::shown(*known), beliefs_.lasts(caller)};
  }
  if (file) {
    const auto changed = co_await file->set_attributes(caller.context, std::move(request));
    if (!changed) co_return changed.error();
    beliefs_.told_changed(caller, *changed);
    co_return told_.answer_of_open(caller, *file, true);
  }
  const auto changed =
      co_await files_.calls().set_attributes(caller.context, std::move(request), caller.unique);
  if (!changed) co_return changed.error();
  files_.names().told(*changed);
  co_return told_.answer_of(caller, *changed);
}

asio::awaitable<Result<std::string>> AttributeOperations::read_link(const Caller& caller, NodeId node) {
  const proto::Attributes* made = files_.names().made(node);
  if (made != nullptr && made->type() == proto::Attributes::SYMLINK) co_return made->target();
  const auto found = co_await files_.calls().get(caller.context, node);
  const proto::Attributes* special = told_.special(node);
  if (!found && special != nullptr && found.error().code() == Code::kStale) co_return special->target();
  if (!found) co_return found.error();
  if (found->type() != proto::Attributes::SYMLINK)
    co_return Status{Code::kInvalidArgument, "is not a symbolic link"};
  co_return found->target();
}

asio::awaitable<Status> AttributeOperations::set_xattr(const Caller& caller, NodeId node,
                                                       std::string_view name,
                                                       std::span<const std::byte> value,
                                                       SetXattrFlags flags) {
  proto::SetXattrRequest request;
  *request.mutable_caller() = caller_of(caller);
  request.set_inode(node);
  request.set_name(std::string(name));
  request.set_value(std::string(reinterpret_cast<const char*>(value.data()), value.size()));
  request.set_create(flags.create);
  request.set_replace(flags.replace);
  // Files that are made in a directory may inherit this attribute, so no lease may hide it.
  if (files_.names().is_leased(node)) files_.give_back(node);
  beliefs_.forget(node);
  const Status set = co_await files_.calls().set_xattr(caller.context, std::move(request), caller.unique);
  beliefs_.forget(node);
  co_return set;
}

asio::awaitable<Result<std::string>> AttributeOperations::get_xattr(const Caller& caller, NodeId node,
                                                                    std::string_view name) {
  // The kernel asks for these by itself, before each operation. Other names go to the metaserver, which may refuse
  // them.
  const bool of_system = name == "system.posix_acl_access" || name == "system.posix_acl_default" ||
                         (name.starts_with("security.") && name != "security.");
  if (of_system && beliefs_.is_without_xattrs(node)) co_return Status{Code::kNoData, "has no such attribute"};
  proto::GetXattrRequest request;
  *request.mutable_caller() = caller_of(caller);
  request.set_inode(node);
  request.set_name(std::string(name));
  co_return co_await files_.calls().get_xattr(caller.context, std::move(request));
}

asio::awaitable<Result<std::vector<std::string>>> AttributeOperations::list_xattrs(const Caller& caller,
                                                                                   NodeId node) {
  return files_.calls().list_xattrs(caller.context, node);
}

asio::awaitable<Status> AttributeOperations::remove_xattr(const Caller& caller, NodeId node,
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

}  // namespace kintsugi::mount
