#include "client/capi/path_operations.h"

#include <algorithm>

#include <linux/fs.h>

#include "client/capi/attributes.h"
#include "common/posix/names.h"

namespace kintsugi::capi {
namespace {

/// What is at a path, which must be something.
asio::awaitable<Result<proto::Attributes>> find(Connection& connection, std::string path,
                                                LastName last_name) {
  auto place = co_await walk(connection.context(), connection.calls(), connection.caller(), std::move(path),
                             last_name);
  if (!place) co_return place.error();
  if (!place->found) co_return Status{Code::kNotFound, place->name + " does not exist"};
  co_return std::move(*place->found);
}

/// Where a name is to be made or taken away. `nameless`: the error for "/", "." and "..".
asio::awaitable<Result<Place>> last_name_of(Connection& connection, std::string path, Code nameless) {
  auto place = co_await walk(connection.context(), connection.calls(), connection.caller(), std::move(path),
                             LastName::kDoNotResolve);
  if (place && place->parent == 0) co_return Status{nameless, "the path does not end with a name"};
  co_return place;
}

asio::awaitable<Result<proto::Attributes>> look_up(Connection& connection, const Place& place) {
  proto::LookupRequest request;
  *request.mutable_caller() = connection.caller();
  request.set_parent(place.parent);
  request.set_name(place.name);
  return connection.calls().lookup(connection.context(), std::move(request));
}

/// The metaserver must know what is open here before a name goes.
asio::awaitable<Status> tell_holds(Connection& connection) {
  client::Session& session = connection.files().session();
  if (session.has_untold()) co_return co_await session.tell(connection.context());
  co_return Status{};
}

Outcome outcome_of_change(const Result<proto::Attributes>& answer) {
  return outcome_of(answer ? Status{} : answer.error());
}

/// Copies what fits into a buffer that may have no room at all, when only the length is asked for.
Outcome copy_all(std::string_view value, std::span<char> into) {
  if (into.empty()) return static_cast<int64_t>(value.size());
  if (value.size() > into.size()) return Status{Code::kRange, "the buffer is too short"};
  std::ranges::copy(value, into.begin());
  return static_cast<int64_t>(value.size());
}

}  // namespace

// ---- attributes

asio::awaitable<Outcome> stat_path(ConnectionPtr connection, std::string path, LastName last_name,
                                   struct kintsugi_stat* into) {
  const auto found = co_await find(*connection, std::move(path), last_name);
  if (!found) co_return found.error();
  fill(*into, *connection, *found);
  co_return int64_t{0};
}

asio::awaitable<Outcome> stat_file_system(ConnectionPtr connection, struct kintsugi_statfs* into) {
  const auto free = co_await connection->client().disk_free();
  if (!free) co_return free.error();
  const double share = free->free_bytes() == 0 ? 0
                                               : static_cast<double>(free->storable_bytes()) /
                                                     static_cast<double>(free->free_bytes());
  *into = {};
  into->free_bytes = free->storable_bytes();
  into->total_bytes =
      std::max(static_cast<uint64_t>(static_cast<double>(free->total_bytes()) * share), into->free_bytes);
  into->files = free->files();
  co_return int64_t{0};
}

asio::awaitable<Outcome> change_attributes(ConnectionPtr connection, std::string path, LastName last_name,
                                           proto::SetAttributesRequest request) {
  const auto found = co_await find(*connection, std::move(path), last_name);
  if (!found) co_return found.error();
  if (request.has_size() && found->type() == proto::Attributes::DIRECTORY)
    co_return Status{Code::kIsDirectory, "is a directory"};
  *request.mutable_caller() = connection->caller();
  request.set_inode(found->inode());
  // An open file knows what is not written out yet.
  const auto file = connection->files().find(found->inode());
  co_return outcome_of_change(
      file ? co_await file->set_attributes(connection->context(), std::move(request))
           : co_await connection->calls().set_attributes(connection->context(), std::move(request)));
}

// ---- names

asio::awaitable<Outcome> make_directory(ConnectionPtr connection, std::string path, uint32_t mode) {
  const auto place = co_await last_name_of(*connection, std::move(path), Code::kAlreadyExists);
  if (!place) co_return place.error();
  proto::MakeInodeRequest request;
  *request.mutable_caller() = connection->caller();
  request.set_parent(place->parent);
  request.set_name(place->name);
  request.set_type(proto::Attributes::DIRECTORY);
  request.set_mode(mode & 07777);
  request.set_umask(connection->umask());
  co_return outcome_of_change(co_await connection->calls().make(connection->context(), std::move(request)));
}

asio::awaitable<Outcome> make_symlink(ConnectionPtr connection, std::string target, std::string path) {
  KINTSUGI_CO_TRY(posix::check_target(target));
  const auto place = co_await last_name_of(*connection, std::move(path), Code::kAlreadyExists);
  if (!place) co_return place.error();
  if (place->ends_with_slash) co_return Status{Code::kNotFound, "the path of a link must not end with /"};
  proto::MakeInodeRequest request;
  *request.mutable_caller() = connection->caller();
  request.set_parent(place->parent);
  request.set_name(place->name);
  request.set_type(proto::Attributes::SYMLINK);
  request.set_target(target);
  co_return outcome_of_change(co_await connection->calls().make(connection->context(), std::move(request)));
}

asio::awaitable<Outcome> read_symlink(ConnectionPtr connection, std::string path, std::span<char> into) {
  const auto found = co_await find(*connection, std::move(path), LastName::kDoNotFollow);
  if (!found) co_return found.error();
  if (found->type() != proto::Attributes::SYMLINK)
    co_return Status{Code::kInvalidArgument, "is not a symbolic link"};
  found->target().copy(into.data(), into.size());
  co_return static_cast<int64_t>(found->target().size());
}

asio::awaitable<Outcome> make_link(ConnectionPtr connection, std::string from, std::string to) {
  const auto source = co_await find(*connection, std::move(from), LastName::kDoNotFollow);
  if (!source) co_return source.error();
  const auto place = co_await last_name_of(*connection, std::move(to), Code::kAlreadyExists);
  if (!place) co_return place.error();
  if (place->ends_with_slash) co_return Status{Code::kNotFound, "the path of a file must not end with /"};
  proto::LinkRequest request;
  *request.mutable_caller() = connection->caller();
  request.set_inode(source->inode());
  request.set_parent(place->parent);
  request.set_name(place->name);
  co_return outcome_of_change(co_await connection->calls().link(connection->context(), std::move(request)));
}

asio::awaitable<Outcome> remove(ConnectionPtr connection, std::string path, bool directory) {
  const bool names_itself = path.ends_with("/.") || path == ".";
  const Code nameless = !directory     ? Code::kIsDirectory
                        : names_itself ? Code::kInvalidArgument
                                       : Code::kNotEmpty;
  const auto place = co_await last_name_of(*connection, std::move(path), nameless);
  if (!place) co_return place.error();
  if (place->ends_with_slash && !directory) {
    const auto found = co_await look_up(*connection, *place);
    if (!found) co_return found.error();
    co_return Status{found->type() == proto::Attributes::DIRECTORY ? Code::kIsDirectory : Code::kNotDirectory,
                     "the path of a file must not end with /"};
  }
  KINTSUGI_CO_TRY(co_await tell_holds(*connection));
  proto::UnlinkRequest request;
  *request.mutable_caller() = connection->caller();
  request.set_parent(place->parent);
  request.set_name(place->name);
  request.set_directory(directory);
  co_return outcome_of_change(co_await connection->calls().unlink(connection->context(), std::move(request)));
}

asio::awaitable<Outcome> rename(ConnectionPtr connection, std::string from, std::string to, unsigned flags) {
  if ((flags & ~unsigned{RENAME_NOREPLACE | RENAME_EXCHANGE}) != 0 ||
      flags == (RENAME_NOREPLACE | RENAME_EXCHANGE))
    co_return Status{Code::kInvalidArgument, "these flags of rename are not supported"};
  const auto source = co_await last_name_of(*connection, std::move(from), Code::kInvalidArgument);
  if (!source) co_return source.error();
  const auto target = co_await last_name_of(*connection, std::move(to), Code::kInvalidArgument);
  if (!target) co_return target.error();
  if (source->ends_with_slash || target->ends_with_slash) {
    const auto found = co_await look_up(*connection, *source);
    if (!found) co_return found.error();
    if (found->type() != proto::Attributes::DIRECTORY)
      co_return Status{Code::kNotDirectory, source->name + " is not a directory"};
  }
  KINTSUGI_CO_TRY(co_await tell_holds(*connection));
  proto::MoveRequest request;
  *request.mutable_caller() = connection->caller();
  request.set_parent(source->parent);
  request.set_name(source->name);
  request.set_to_parent(target->parent);
  request.set_to_name(target->name);
  request.set_no_replace((flags & RENAME_NOREPLACE) != 0);
  request.set_exchange((flags & RENAME_EXCHANGE) != 0);
  co_return outcome_of_change(co_await connection->calls().move(connection->context(), std::move(request)));
}

// ---- extended attributes

asio::awaitable<Outcome> get_xattr(ConnectionPtr connection, std::string path, std::string name,
                                   std::span<char> into) {
  const auto found = co_await find(*connection, std::move(path), LastName::kFollow);
  if (!found) co_return found.error();
  proto::GetXattrRequest request;
  *request.mutable_caller() = connection->caller();
  request.set_inode(found->inode());
  request.set_name(std::move(name));
  const auto value = co_await connection->calls().get_xattr(connection->context(), std::move(request));
  if (!value) co_return value.error();
  co_return copy_all(*value, into);
}

asio::awaitable<Outcome> set_xattr(ConnectionPtr connection, std::string path,
                                   proto::SetXattrRequest request) {
  const auto found = co_await find(*connection, std::move(path), LastName::kFollow);
  if (!found) co_return found.error();
  *request.mutable_caller() = connection->caller();
  request.set_inode(found->inode());
  co_return outcome_of(co_await connection->calls().set_xattr(connection->context(), std::move(request)));
}

asio::awaitable<Outcome> list_xattrs(ConnectionPtr connection, std::string path, std::span<char> into) {
  const auto found = co_await find(*connection, std::move(path), LastName::kFollow);
  if (!found) co_return found.error();
  const auto names = co_await connection->calls().list_xattrs(connection->context(), found->inode());
  if (!names) co_return names.error();
  std::string all;
  for (const std::string& name : *names) {
    all += name;
    all += '\0';
  }
  co_return copy_all(all, into);
}

}  // namespace kintsugi::capi
