#include "client/capi/access.h"

#include "common/posix/access_list.h"

namespace kintsugi::capi {

asio::awaitable<Status> check_access(Context context, client::InodeCalls& calls, proto::Caller caller,
                                     proto::Attributes attributes, uint32_t wanted) {
  const posix::Caller who = posix::Caller::from(caller);
  const bool is_directory = attributes.type() == proto::Attributes::DIRECTORY;
  const posix::Permissions permissions{attributes.uid(), attributes.gid(), attributes.mode(), is_directory};
  std::optional<std::string> list;
  if (attributes.has_xattrs() && permissions.ask_the_list(who)) {
    proto::GetXattrRequest request;
    *request.mutable_caller() = caller;
    request.set_inode(attributes.inode());
    request.set_name(std::string(posix::kAccessList));
    auto found = co_await calls.get_xattr(context, std::move(request));
    if (!found && found.error().code() != Code::kNoData) co_return found.error();
    if (found) list = std::move(*found);
  }
  if (permissions.allow(who, wanted, list)) co_return Status{};
  co_return Status{Code::kAccessDenied, "may not be opened in this way by this user"};
}

}  // namespace kintsugi::capi
