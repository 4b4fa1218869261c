/// KernelBeliefs says for how long the kernel may believe what it was told of inodes and names, and has it forget that
/// when others change them (decision 028).
#pragma once

#include <unordered_map>

#include <boost/asio/awaitable.hpp>

#include "client/lib/leases/session.h"
#include "client/mount/kernel/file_system.h"
#include "client/mount/kernel/notifier.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"

namespace kintsugi::mount {

/// Single-threaded.
class KernelBeliefs {
 public:
  struct Options {
    Lifetime cached_for;
    size_t remembered;  ///< limit for the inodes that are remembered
  };

  /// References outlive it. `notifier` may be null: then the kernel is not told of changes, and believes for
  /// `cached_for`.
  KernelBeliefs(const runtime::Runtime& runtime, client::Session& session, Notifier* notifier,
                runtime::TaskGroup& tasks, Options options);

  /// Says whether the kernel can be told to ask for a name again.
  void can_expire_names(bool can) { expires_names_ = can; }

  /// Returns for how long the kernel may believe what this request is answered about an inode.
  Lifetime lasts(const Caller& caller) const;
  /// Returns for how long the kernel may believe that there is, or is not, a name in this directory.
  Lifetime lasts(const Caller& caller, NodeId directory) const;

  /// Returns true if others changed something while the request was under way: the kernel may have been told to forget what it is about.
  bool is_overtaken(const Caller& caller) const;

  /// Notes that the kernel gets attributes which the metaserver has just returned (it will report changes by others for
  /// a while), or of an inode that only this mount knows.
  void told(const Caller& caller, const proto::Attributes& attributes);
  /// Notes that the kernel gets attributes that were changed here, under a write lease.
  void told_changed(const Caller& caller, const proto::Attributes& attributes);
  /// Notes that this mount did something that may have changed the attributes of any inode, as the end of a name does.
  void any_may_have_changed() { changed_here_ = clock_.now(); }
  /// Returns for how long nobody else changes the inode's attributes unheard. Nothing: the metaserver has to be asked.
  Lifetime still_confirmed(NodeId node) const;
  /// Returns true if the kernel got the inode's attributes a moment ago, and it had no extended attributes.
  bool is_without_xattrs(NodeId node) const;
  void forget(NodeId node) { inodes_.erase(node); }
  size_t count() const { return inodes_.size(); }

 private:
  asio::awaitable<void> forget_changed(client::Session::Changes changes);

  struct Told {
    bool has_xattrs = false;
    TimePoint until;  ///< the kernel may rely on it until then
    TimePoint asked = TimePoint::min(), confirmed_until{};
  };
  runtime::Clock& clock_;
  client::Session& session_;
  Notifier* notifier_;
  runtime::TaskGroup& tasks_;
  const Options options_;
  bool expires_names_ = false;
  TimePoint changed_here_ = TimePoint::min();
  std::unordered_map<NodeId, Told> inodes_;  ///< bounded to the most recent entries
};

}  // namespace kintsugi::mount
