/// Names and attributes that this process changes by itself, under leases, and tells the metaserver of a moment later.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "client/lib/leases/inode_calls.h"
#include "client/lib/leases/lease_user.h"
#include "client/lib/leases/names_meanwhile.h"
#include "client/lib/leases/reserved_ids.h"
#include "client/lib/leases/session.h"
#include "client/lib/leases/unsent_names.h"
#include "client/lib/resources.h"

namespace kintsugi::client {

/// The lease of a directory is given with the directory, when it is empty. From then on every name in it is known here: what is
/// not there need not be asked for, and what is made gets an id that was reserved for the session. Who else wants to see the directory
/// has it written out and given back first. What was made is in the log (NameLog) until the metaserver has it; any other call of
/// InodeCalls is sent after that. Single-threaded.
class LeasedNames : private NameChangesHearer {
 public:
  static constexpr size_t kMaxDirectories = 50'000;
  static constexpr size_t kMaxLinked = 10'000;  ///< inodes with another name that are remembered

  struct Options {
    bool lease_directories = false;  ///< whether leases of directories are asked for at all
    size_t max_names = 0;            ///< names that are known at once in all directories, about
  };

  /// What is referred to outlives it.
  LeasedNames(Resources& resources, InodeCalls& calls, UnsentNames& unsent, ReservedIds& ids, LeaseUser& user,
              Options options);

  // ---- directories
  /// Stops making names in the directory: its lease ends, or has ended.
  void forget(uint64_t directory);
  bool is_leased(uint64_t directory) const { return directories_.contains(directory); }
  /// Takes the attributes of a directory that the metaserver has told.
  void told(const proto::Attributes& directory);
  /// Notes that the metaserver may have changed a directory: what is known of its attributes may be older.
  void may_have_changed(uint64_t directory);
  /// Returns the attributes of a leased directory, as far as they are known. Null: ask the metaserver.
  const proto::Attributes* directory(uint64_t inode) const;

  /// Returns an inode that was made here and that the metaserver may not know yet. Null: ask the metaserver.
  const proto::Attributes* made(uint64_t inode) const;
  /// Returns made(), unless the metaserver was sent it. Who opens it then needs no call: that it is held goes along (HeldInodes).
  const proto::Attributes* unsent(uint64_t id) const { return unsent_.is_sending() ? nullptr : made(id); }

  // ---- the calls of InodeCalls, without a call where that can be
  asio::awaitable<Result<proto::Attributes>> lookup(Context context, proto::LookupRequest request);
  asio::awaitable<Result<proto::Attributes>> make(Context context, proto::MakeInodeRequest request,
                                                  uint64_t tag = 0);
  asio::awaitable<Result<proto::Attributes>> link(Context context, proto::LinkRequest request,
                                                  uint64_t tag = 0);
  /// Returns the inode whose name is gone, if that is known; 0: any.
  asio::awaitable<Result<uint64_t>> unlink(Context context, proto::UnlinkRequest request, uint64_t tag = 0);
  asio::awaitable<Status> move(Context context, proto::MoveRequest request, uint64_t tag = 0);
  /// Changes the attributes of an inode that is leased, or was made here. Returns false if there is no room for it.
  bool set_attributes(proto::SetAttributesRequest request, const proto::Attributes& result);

  size_t known() const { return names_; }
  /// Returns true if the metaserver does not know all changes yet (UnsentNames).
  bool pending() const { return unsent_.pending(); }
  asio::awaitable<Status> flush(Context context) { return unsent_.flush(context); }

 private:
  struct Named {
    uint64_t inode = 0;  ///< the inode that was made here; 0: ask
    bool is_directory = false;
  };
  struct Directory {
    proto::Attributes attributes;
    bool is_current = true;  ///< nothing that the metaserver did has changed the attributes since
    std::string file_policy;
    std::map<std::string, Named, std::less<>> names;
  };
  /// Returns true if no such name is there, for certain.
  bool is_absent(uint64_t parent, std::string_view name) const;
  /// Notes a call that changes names of a leased directory: before it gives one, after it has taken one.
  void name_given(uint64_t parent, std::string_view name);
  void name_taken(uint64_t parent, std::string_view name);
  /// Has the oldest directories end until at most half of what there may be is known.
  void make_room();
  /// Notes that the session was given the lease of this new directory.
  void leased(const proto::Attributes& directory, const std::string& file_policy);
  /// Makes an inode here. None: only the metaserver can, or has to say why not.
  std::optional<proto::Attributes> make_here(const proto::MakeInodeRequest& request, uint64_t tag);
  bool may_make(const Directory& directory, const proto::MakeInodeRequest& request) const;
  /// Removes a name here, and returns the inode that has lost it. None: only the metaserver can, or has to say why not.
  std::optional<uint64_t> unlink_here(const proto::UnlinkRequest& request, uint64_t tag);
  /// Notes that the directory's content changed, at that time.
  void touch(Directory& directory, int64_t now_ns);
  void carried_out(const proto::NameChange& change, const proto::WriteNamesResponse::Written& written,
                   bool last) override;
  void make_refused(const proto::NameChange& change, const Status& why);

  Resources& resources_;
  Session& session_;
  InodeCalls& calls_;
  UnsentNames& unsent_;
  ReservedIds& ids_;
  LeaseUser& user_;
  const Options options_;
  std::unordered_map<uint64_t, Directory> directories_;
  std::unordered_map<uint64_t, proto::Attributes> made_;  ///< inodes that are in the log
  /// Inodes that a process before this one had made, and whose name it had removed, by tag.
  std::unordered_map<uint64_t, uint64_t> made_before_, unlinked_before_;
  std::unordered_set<uint64_t> linked_;  ///< inodes that were given another name; bounded
  bool may_be_linked_ = false;           ///< more inodes were linked than are remembered
  size_t names_ = 0;
  NamesMeanwhile meanwhile_;
};

}  // namespace kintsugi::client
