/// A directory of the C interface that is being read.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "client/capi/connection.h"
#include "common/proto/meta.pb.h"

namespace kintsugi::capi {

/// Entries are fetched page by page, in the order of their names. Any thread may call; several wait for one another.
class Directory {
 public:
  /// A task: fills `opened`, once it is clear that the caller may read what is there.
  static asio::awaitable<Outcome> open(ConnectionPtr connection, std::string path,
                                       std::shared_ptr<Directory>& opened);

  Directory(ConnectionPtr connection, uint64_t inode) : connection_(std::move(connection)), inode_(inode) {}

  /// 1, or 0 at the end. kDeadlock as Connection::call has it, also where nothing has to be fetched.
  Outcome next(kintsugi_dirent& entry);
  const ConnectionPtr& connection() const { return connection_; }

 private:
  asio::awaitable<Outcome> fetch();

  const ConnectionPtr connection_;
  const uint64_t inode_;
  std::mutex mutex_;
  proto::ListResponse page_;
  int at_ = 0;         ///< index of the page's next entry
  std::string after_;  ///< last name of the previous page
  bool more_ = true;   ///< whether there may be another page
};

}  // namespace kintsugi::capi
