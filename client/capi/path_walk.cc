#include "client/capi/path_walk.h"

#include <deque>

#include "common/base/ids.h"
#include "common/posix/names.h"

namespace kintsugi::capi {
namespace {

std::deque<std::string> split(const std::string& path) {
  std::deque<std::string> names;
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    if (end > at) names.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

}  // namespace

asio::awaitable<Result<Place>> walk(Context context, client::InodeCalls& calls, proto::Caller caller,
                                    std::string path, LastName last_name) {
  if (path.empty()) co_return Status{Code::kNotFound, "the path is empty"};
  if (path.size() > posix::kMaxPathBytes) co_return Status{Code::kNameTooLong, "the path is too long"};
  std::deque<std::string> names = split(path);
  uint64_t directory = kRootInode.value;
  bool ends_with_slash = path.back() == '/';
  std::optional<proto::Attributes> here;  // attributes of the directory, if the path ends there
  int symlinks = 0;
  while (!names.empty()) {
    const std::string name = std::move(names.front());
    names.pop_front();
    const bool special = name == "." || name == "..";
    const bool is_last = names.empty() && !special;
    Place place{directory, name, {}, ends_with_slash};
    if (is_last && last_name == LastName::kDoNotResolve) co_return place;
    proto::LookupRequest request;
    *request.mutable_caller() = caller;
    request.set_parent(directory);
    request.set_name(name);
    auto found = co_await calls.lookup(context, std::move(request));
    if (!found && is_last && found.error().code() == Code::kNotFound) co_return place;
    if (!found) co_return found.error();
    const bool follows = !is_last || ends_with_slash || last_name == LastName::kFollow;
    if (found->type() == proto::Attributes::SYMLINK && follows) {
      if (++symlinks > kMaxSymlinks) co_return Status{Code::kSymlinkLoop, "too many symbolic links"};
      const std::string& target = found->target();
      if (target.starts_with('/')) directory = kRootInode.value;
      if (is_last) ends_with_slash |= target.ends_with('/');
      const std::deque<std::string> before = split(target);
      names.insert(names.begin(), before.begin(), before.end());
      here.reset();
      continue;
    }
    const bool is_directory = found->type() == proto::Attributes::DIRECTORY;
    if (!is_directory && (!is_last || ends_with_slash))
      co_return Status{Code::kNotDirectory, name + " is not a directory"};
    if (is_last) {
      place.found = std::move(*found);
      co_return place;
    }
    directory = found->inode();
    here = std::move(*found);
  }
  if (!here) {
    auto root = co_await calls.get(context, directory);
    if (!root) co_return root.error();
    here = std::move(*root);
  }
  co_return Place{0, "", std::move(here), true};
}

}  // namespace kintsugi::capi
