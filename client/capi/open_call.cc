#include "client/capi/open_call.h"

#include <fcntl.h>

#include "client/capi/access.h"
#include "client/capi/path_walk.h"
#include "client/lib/files/open_flags.h"

namespace kintsugi::capi {
namespace {

/// A name that comes and goes while it is opened: so often is it looked at.
constexpr int kAttempts = 16;

uint32_t wanted_by(int flags) {
  uint32_t wanted = 0;
  if ((flags & O_ACCMODE) != O_WRONLY) wanted |= kMayRead;
  if (client::changes_file(flags)) wanted |= kMayWrite;
  return wanted;
}

asio::awaitable<Result<proto::Attributes>> make(Connection& connection, uint64_t parent, std::string name,
                                                uint32_t mode) {
  proto::MakeInodeRequest request;
  *request.mutable_caller() = connection.caller();
  request.set_parent(parent);
  request.set_name(std::move(name));
  request.set_type(proto::Attributes::FILE);
  request.set_mode(mode & 07777);
  request.set_umask(connection.umask());
  request.set_hold_for(connection.files().session().id());
  return connection.calls().make(connection.context(), std::move(request));
}

asio::awaitable<Status> open_nameless(ConnectionPtr connection, Place place, int flags, uint32_t mode,
                                      FilePtr& opened) {
  if ((flags & O_ACCMODE) == O_RDONLY)
    co_return Status{Code::kInvalidArgument, "O_TMPFILE requires opening for writing"};
  if (!place.found) co_return Status{Code::kNotFound, place.name + " does not exist"};
  const auto made = co_await make(*connection, place.found->inode(), "", mode);
  if (!made) co_return made.error();
  opened = File::open(connection, connection->files().open(*made, /*held=*/true), flags);
  co_return Status{};
}

Status check_type(const Place& place, int flags) {
  const proto::Attributes::Type type = place.found->type();
  const bool wants_new = (flags & O_CREAT) != 0 && (flags & O_EXCL) != 0;
  if (wants_new) return {Code::kAlreadyExists, place.name + " exists"};
  if (type == proto::Attributes::SYMLINK) return {Code::kSymlinkLoop, place.name + " is a symbolic link"};
  if (type == proto::Attributes::DIRECTORY) return {Code::kIsDirectory, "is a directory"};
  if ((flags & O_DIRECTORY) != 0) return {Code::kNotDirectory, place.name + " is not a directory"};
  if (type != proto::Attributes::FILE) return {Code::kNoDevice, place.name + " is not a regular file"};
  return {};
}

asio::awaitable<Status> open_existing(ConnectionPtr connection, const proto::Attributes& attributes,
                                      int flags, FilePtr& opened) {
  KINTSUGI_CO_TRY(client::check_may_open(attributes.inode(), flags));
  KINTSUGI_CO_TRY(co_await check_access(connection->context(), connection->calls(), connection->caller(),
                                        attributes, wanted_by(flags)));
  const FilePtr file = File::open(connection, connection->files().open(attributes), flags);
  if ((flags & O_TRUNC) != 0) {
    const auto cut = co_await File::empty(file);
    if (!cut) {
      (void)co_await File::close(file);
      co_return cut.error();
    }
  }
  opened = file;
  co_return Status{};
}

}  // namespace

asio::awaitable<Status> open_file(ConnectionPtr connection, std::string path, int flags, uint32_t mode,
                                  FilePtr& opened) {
  const bool nameless = (flags & O_TMPFILE) == O_TMPFILE;
  if ((flags & O_ACCMODE) == O_ACCMODE || (flags & O_PATH) != 0)
    co_return Status{Code::kInvalidArgument, "files are opened for reading, for writing or for both"};
  if ((flags & O_CREAT) != 0 && (flags & O_DIRECTORY) != 0)
    co_return Status{Code::kInvalidArgument,
                     "O_CREAT and O_DIRECTORY exclude each other: kintsugi_mkdir makes directories"};
  const bool exclusive = (flags & O_CREAT) != 0 && (flags & O_EXCL) != 0;
  const LastName last_name =
      exclusive || (flags & O_NOFOLLOW) != 0 ? LastName::kDoNotFollow : LastName::kFollow;
  for (int attempt = 1;; ++attempt) {
    auto place =
        co_await walk(connection->context(), connection->calls(), connection->caller(), path, last_name);
    if (!place) co_return place.error();
    if (nameless) co_return co_await open_nameless(connection, std::move(*place), flags, mode, opened);
    if (place->found) {
      KINTSUGI_CO_TRY(check_type(*place, flags));
      co_return co_await open_existing(connection, *place->found, flags, opened);
    }
    if ((flags & O_CREAT) == 0) co_return Status{Code::kNotFound, place->name + " does not exist"};
    if (place->ends_with_slash)
      co_return Status{Code::kIsDirectory, "the path of a file must not end with /"};
    const auto made = co_await make(*connection, place->parent, place->name, mode);
    if (made) {
      opened = File::open(connection, connection->files().open(*made, /*held=*/true), flags);
      co_return Status{};
    }
    // Somebody else has made it meanwhile.
    const bool again = made.error().code() == Code::kAlreadyExists && !exclusive && attempt < kAttempts;
    if (!again) co_return made.error();
  }
}

}  // namespace kintsugi::capi
