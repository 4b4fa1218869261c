#include "client/capi/directory.h"

#include "client/capi/access.h"
#include "client/capi/path_walk.h"
#include "client/lib/files/file_mode.h"

namespace kintsugi::capi {
namespace {

constexpr uint32_t kEntriesAtOnce = 1000;

}  // namespace

asio::awaitable<Outcome> Directory::open(ConnectionPtr connection, std::string path,
                                         std::shared_ptr<Directory>& opened) {
  const auto place = co_await walk(connection->context(), connection->calls(), connection->caller(),
                                   std::move(path), LastName::kFollow);
  if (!place) co_return place.error();
  if (!place->found) co_return Status{Code::kNotFound, place->name + " does not exist"};
  if (place->found->type() != proto::Attributes::DIRECTORY)
    co_return Status{Code::kNotDirectory, place->name + " is not a directory"};
  KINTSUGI_CO_TRY(co_await check_access(connection->context(), connection->calls(), connection->caller(),
                                        *place->found, kMayRead));
  opened = std::make_shared<Directory>(connection, place->found->inode());
  co_return int64_t{0};
}

Outcome Directory::next(kintsugi_dirent& entry) {
  // Before the lock, which a thread may have that waits for the connection's.
  KINTSUGI_TRY(connection_->check_may_wait());
  const std::lock_guard lock(mutex_);
  while (at_ == page_.entries_size()) {
    if (!more_) return int64_t{0};
    const Outcome fetched = connection_->call(fetch());
    if (!fetched) return fetched;
  }
  const proto::DirectoryEntry& listed = page_.entries(at_++);
  entry = {};
  entry.ino = listed.attributes().inode();
  entry.type = client::type_bits(listed.attributes().type());
  listed.name().copy(entry.name, sizeof entry.name - 1);
  return int64_t{1};
}

asio::awaitable<Outcome> Directory::fetch() {
  proto::ListInodeRequest request;
  *request.mutable_caller() = connection_->caller();
  request.set_directory(inode_);
  request.set_after(after_);
  request.set_limit(kEntriesAtOnce);
  request.set_names_only(true);
  auto page = co_await connection_->calls().list(connection_->context(), std::move(request));
  if (!page) co_return page.error();
  page_ = std::move(*page);
  at_ = 0;
  more_ = page_.more();
  if (page_.entries_size() > 0) after_ = page_.entries(page_.entries_size() - 1).name();
  co_return int64_t{0};
}

}  // namespace kintsugi::capi
