/// Names and attributes that this process changes by itself, under leases, and tells the metaserver of a moment later.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "client/lib/files/inode_calls.h"
#include "client/lib/files/name_log.h"
#include "client/lib/files/session.h"
#include "client/lib/resources.h"
#include "common/runtime/event.h"
#include "common/runtime/task_group.h"

namespace kintsugi::client {

/// The lease of a directory is given with the directory, when it is empty. From then on every name in it is known here: what is
/// not there need not be asked for, and what is made gets an id that was reserved for the session. Who else wants to see the directory
/// has it written out and given back first. What was made is in the log (NameLog) until the metaserver has it; any other call of
/// InodeCalls is sent after that. Single-threaded.
class LeasedNames {
 public:
  static constexpr size_t kMaxDirectories = 50'000;
  static constexpr size_t kAlong = 64;          ///< changes at most that go along with another call
  static constexpr size_t kAtOnce = 500;        ///< changes in one call
  static constexpr size_t kBeginAt = 128;       ///< changes that wait until a call is begun
  static constexpr size_t kMaxLinked = 10'000;  ///< inodes with another name that are remembered
  static constexpr uint32_t kReserve = 4000;    ///< ids in one call, asked for when half of them are left

  /// `region` of the log: see NameLog. Over all directories about `max_names` are known. What is referred to outlives it; `tasks`
  /// runs what goes on in the background.
  LeasedNames(Resources& resources, Session& session, InodeCalls& calls, runtime::TaskGroup& tasks,
              std::span<std::byte> region, size_t max_names);

  // ---- directories
  /// The session was given the lease of this new directory.
  void leased(const proto::Attributes& directory, const std::string& file_policy);
  /// Names are not made here any more: the lease ends, or has ended.
  void forget(uint64_t directory);
  bool is_leased(uint64_t directory) const { return directories_.contains(directory); }
  /// The metaserver told these attributes of a directory.
  void told(const proto::Attributes& directory);
  /// A call has ended that may have changed a directory at the metaserver: what is known of its attributes may be older than that.
  void may_have_changed(uint64_t directory);
  /// The attributes of a leased directory, as far as they are known. Null: ask the metaserver.
  const proto::Attributes* directory(uint64_t inode) const;
  /// The leases were lost, and so may be the ids.
  void lost() { ids_.clear(); }

  /// An inode that was made here and that the metaserver may not know yet. Null: ask the metaserver.
  const proto::Attributes* made(uint64_t inode) const;
  /// Returns made() as long as the metaserver has not been sent the inode either. Who opens it then needs no call: that it is held goes
  /// along with it (Session::held).
  const proto::Attributes* unsent(uint64_t inode) const { return writing_ ? nullptr : made(inode); }

  // ---- the calls of InodeCalls, without a call where that can be
  asio::awaitable<Result<proto::Attributes>> lookup(Context context, proto::LookupRequest request);
  asio::awaitable<Result<proto::Attributes>> make(Context context, proto::MakeInodeRequest request,
                                                  uint64_t tag = 0);
  asio::awaitable<Result<proto::Attributes>> link(Context context, proto::LinkRequest request,
                                                  uint64_t tag = 0);
  /// The inode whose name is gone, if that is known; 0: any.
  asio::awaitable<Result<uint64_t>> unlink(Context context, proto::UnlinkRequest request, uint64_t tag = 0);
  asio::awaitable<Status> move(Context context, proto::MoveRequest request, uint64_t tag = 0);
  /// A change of attributes of an inode that is leased, or was made here. False: there is no room for it.
  bool set_attributes(proto::SetAttributesRequest request, const proto::Attributes& result);

  bool pending() const { return !log_.empty(); }
  size_t known() const { return names_; }
  /// What was changed before is durable at the metaserver; what it refused is told by `on_refused`. kUnavailable.
  asio::awaitable<Status> flush(Context context);
  /// Puts all that is not written out yet into a call that goes to the metaserver anyway, of which written_along() has to be told
  /// (nothing: it is not carried out). False: it is being written out already, or is too much.
  bool write_along(const Context& context, proto::WriteNamesRequest& request);
  void written_along(const proto::WriteNamesRequest& request, const proto::WriteNamesResponse* answer);
  bool is_little() const { return log_.size() <= kAlong; }
  /// Begins a flush() and does not wait for it.
  void start_flush();
  /// Begins it when something has waited for so long.
  void tick(Duration at_most);

  /// More is known than there may be: the leases of these directories are to end.
  std::function<void(const std::vector<uint64_t>& directories)> on_full = [](const std::vector<uint64_t>&) {};

  /// The metaserver will not have this inode: whoever uses it is to be told.
  std::function<void(uint64_t inode, const Status& why)> on_refused = [](uint64_t, const Status&) {};
  /// The metaserver has it: as it is there, and whether the session has its lease.
  std::function<void(const proto::Attributes& attributes, bool lease)> on_written =
      [](const proto::Attributes&, bool) {};

 private:
  struct Named {
    uint64_t inode = 0;  ///< that was made here; 0: ask
    bool is_directory = false;
  };
  struct Directory {
    proto::Attributes attributes;
    bool is_current = true;  ///< nothing that the metaserver did has changed the attributes since
    std::string file_policy;
    std::map<std::string, Named, std::less<>> names;
  };
  /// No such name is there, for certain.
  bool is_absent(uint64_t parent, std::string_view name) const;
  /// The metaserver does something with names of a leased directory. Before a call that gives one, after one that takes one.
  void name_given(uint64_t parent, std::string_view name);
  void name_taken(uint64_t parent, std::string_view name);
  /// Has the oldest directories end until at most half of what there may be is known.
  void make_room();
  std::optional<uint64_t> take_id();
  asio::awaitable<void> reserve();
  /// None: only the metaserver can, or has to say why not.
  std::optional<proto::Attributes> make_here(const proto::MakeInodeRequest& request, uint64_t tag);
  bool may_make(const Directory& directory, const proto::MakeInodeRequest& request) const;
  /// The inode that has lost its name. None: only the metaserver can, or has to say why not.
  std::optional<uint64_t> unlink_here(const proto::UnlinkRequest& request, uint64_t tag);
  /// The directory's content changed, at that time.
  void touch(Directory& directory, int64_t now_ns);
  proto::Attributes fresh(const Directory& directory, const proto::MakeInodeRequest& request, uint64_t inode,
                          int64_t now_ns) const;
  bool append(proto::NameChange change);
  asio::awaitable<Status> write_some(Context context);
  /// The first changes of the log, as they are to be made by now.
  void fill(proto::WriteNamesRequest& request, size_t count);
  Status take(const proto::WriteNamesRequest& request, const proto::WriteNamesResponse& answer);
  void written(const proto::NameChange& change, const proto::WriteNamesResponse::Written& written);
  asio::awaitable<void> flush_in_background();

  Resources& resources_;
  Session& session_;
  InodeCalls& calls_;
  runtime::TaskGroup& tasks_;
  const size_t max_names_;
  NameLog log_;
  std::optional<TimePoint> waits_since_;
  std::unordered_map<uint64_t, Directory> directories_;
  std::unordered_map<uint64_t, proto::Attributes> made_;  ///< inodes that are in the log
  std::unordered_map<uint64_t, size_t> changes_of_;       ///< in the log, by inode
  /// Inodes that a process before this one had made, and whose name it had removed, by tag.
  std::unordered_map<uint64_t, uint64_t> made_before_, unlinked_before_;
  std::unordered_set<uint64_t> linked_;  ///< inodes that were given another name; bounded
  bool may_be_linked_ = false;           ///< there were more of them than are remembered
  size_t names_ = 0;
  std::deque<std::pair<uint64_t, uint64_t>> ids_;  ///< reserved: from, count
  bool reserving_ = false, writing_ = false, in_background_ = false;
  uint64_t appended_ = 0, dropped_ = 0;  ///< changes, ever
  uint64_t writing_span_ = 0;            ///< the region that writes out now, for those who wait for it
  runtime::Event written_;
};

}  // namespace kintsugi::client
