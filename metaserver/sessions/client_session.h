/// One client with open files: what it holds, its leases, and what it has not heard of. Its locks are in FileLocks,
/// what its kernel was told is in Promises, by inode. Clients::end ends all of it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/ids.h"
#include "common/runtime/event.h"
#include "common/runtime/runtime.h"

namespace kintsugi::metaserver {

/// The inodes that a session has open (Sessions).
struct OpenInodes {
  std::set<InodeId> all;
  bool told_all = false;    ///< the session has told everything that it holds
  uint64_t generation = 0;  ///< the generation of the pages that come now; 0: none do
  /// Inodes that the pages named, and those that were opened since the first page came.
  std::set<InodeId> listed;
  bool pages_lost = false;  ///< one of the pages told the session of a loss
};

/// The write leases of a session (Leases).
struct SessionLeases {
  std::set<InodeId> owned;
  std::set<InodeId> to_recall;  ///< leases that it is to be asked for
  std::set<InodeId> lost;       ///< leases that it lost, until it says that it has given up what it kept back

  size_t count() const { return owned.size() + lost.size(); }  ///< bounded: so a loss is always remembered
};

/// What a session's kernel believes, and of which changes it has not heard yet (Promises).
struct SessionBeliefs {
  struct Untold {
    uint64_t number;
    TimePoint until;
    InodeId inode;
    std::vector<std::string> names;
  };
  bool believes = true;
  /// Numbers of changes. They begin with the time, so that those of a former process of the metaserver are smaller.
  /// `last` is 0 as long as the session has said nothing of itself: then nobody knows what it believes.
  uint64_t last = 0, heard = 0;
  std::deque<Untold> untold;                      ///< changes that it has not heard of
  std::unordered_map<InodeId, TimePoint> shared;  ///< directories in which it believes no names until then

  bool has_spoken() const { return last != 0; }
};

struct ClientSession {
  explicit ClientSession(const runtime::Runtime& runtime)
      : last_heard(runtime.clock.now()), news(std::make_shared<runtime::Event>(runtime)) {}

  TimePoint last_heard;
  uint64_t last_number = 0;  ///< the number of its last message
  /// The highest number of a WriteNames message that came, and that of the last one that was carried out.
  uint64_t names_heard = 0, names_done = 0;
  uint64_t process = 0;  ///< id of its process in reports to the monitor; 0: not known
  bool noted = false;    ///< the next process of the metaserver will know that there was this session
  bool lost = false;     ///< the session lost something by its silence; the next metaserver will know it, too
  bool of_before = false;  ///< the session was there before the metaserver started
  OpenInodes open;
  SessionLeases leases;
  SessionBeliefs beliefs;
  /// Notified when the session is to be told something, and when it has ended. Whoever waits shares it: the session may
  /// end meanwhile.
  const std::shared_ptr<runtime::Event> news;
};

}  // namespace kintsugi::metaserver
