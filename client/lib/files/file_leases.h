/// What leases demand of the files that are open in this process.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "client/lib/leases/lease_user.h"

namespace kintsugi {
namespace asio = boost::asio;
}

namespace kintsugi::client {

struct FilesShared;
class OpenFileState;

/// Whoever wants to see what is kept back here waits until it is written out and its lease has been given back: tried
/// as long as they wait. REQUIRES, before it is destroyed: FilesShared::tasks was joined.
class FileLeases : public LeaseUser {
 public:
  explicit FileLeases(FilesShared& shared) : shared_(shared) {}

  void on_recalled(const std::vector<uint64_t>& inodes) override;
  void on_lost(const std::vector<uint64_t>& inodes) override;
  void end_leases(const std::vector<uint64_t>& inodes) override;
  void want_lease(uint64_t inode) override;
  void on_refused(uint64_t inode, const Status& why) override;
  void on_attributes_refused(uint64_t inode, const Status& why) override;
  void on_written(const proto::Attributes& attributes, bool lease) override;

  /// A write of the file was refused, for its lease is lost: that is known before the session is told.
  void lost_by_answer(uint64_t inode);
  /// The file is not open any more, and clean.
  void forget(uint64_t inode) { unleased_.erase(inode); }

 private:
  /// Null: it is not open, and clean.
  std::shared_ptr<OpenFileState> file(uint64_t inode) const;
  /// Writes out these inodes, whose leases have ended here, and gives the leases back. The values are the numbers of
  /// these ends (WriteLeases::end()).
  asio::awaitable<void> give_back(std::map<uint64_t, uint64_t> inodes);
  /// Gives back the lease of a file that was lost while something of the file was under way, once nothing is any more.
  asio::awaitable<void> give_back_lost(std::shared_ptr<OpenFileState> state);
  asio::awaitable<void> ask_for(uint64_t inode);

  FilesShared& shared_;
  /// Files that the metaserver gave no lease when it heard of them, while they are not written out: nobody else would wait for
  /// what was kept back of them.
  std::set<uint64_t> unleased_;
};

}  // namespace kintsugi::client
