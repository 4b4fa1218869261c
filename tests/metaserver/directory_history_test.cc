// Random histories of directories with snapshots, quotas and trash, in which names begin each other, files are open without a name,
// commits fail and the metaserver crashes: a snapshot shows what it showed and keeps nothing else, a quota has counted what is there,
// what is in the trash comes back.
#include "tests/metaserver/directory_rig.h"
#include "tests/metaserver/mean_names.h"
#include "tests/test_seeds.h"

namespace kintsugi::metaserver {
namespace {

constexpr int64_t kMinute = 60'000'000'000;
constexpr uint64_t kSession = 9;  ///< has files open

class History {
 public:
  explicit History(uint64_t seed)
      : rig(seed),
        files_(some_mean_names('f', 4, seed)),
        directories_(some_mean_names('d', 2, seed)),
        attributes_(some_mean_names('x', 2, seed)),
        names_(some_mean_names('s', 4, seed)) {}

  void step() {
    const std::string path = directory(), other = directory();
    const std::string file = path + "/" + any_of(files_), dir = path.empty() ? "/" : path;
    fail_a_commit_sometimes();
    switch (pick(26)) {
      case 0:
      case 1: note(rig.make_directory(path + "/" + any_of(directories_))); break;
      case 2:
      case 3: note(rig.put(file, static_cast<int>(pick(4) == 0 ? 20 : 1), 1 + pick(3000), true)); break;
      case 4: note(rig.remove(file)); break;
      case 5: note(rig.rename(file, other + "/" + any_of(files_), true)); break;
      case 6: note(rig.rename(path + "/" + any_of(directories_), other + "/" + any_of(directories_))); break;
      case 7:
        if (pick(3) == 0) note(rig.remove(path + "/" + any_of(directories_), true));
        break;
      case 8: note(rig.set_size(rig.inode(file), pick(2) * pick(4000))); break;
      case 9: note(rig.copy(rig.inode(file), rig.inode(other + "/" + any_of(files_)))); break;
      case 10:
        if (pick(3) == 0)
          note(rig.link(rig.inode(file), rig.inode(other.empty() ? "/" : other), any_of(files_)));
        break;
      case 11:
        note(pick(2) ? rig.set_mode(rig.inode(file), pick(512))
                     : rig.set_xattr(rig.inode(file), fmt::format("v{}", pick(1000)),
                                     "user." + any_of(attributes_)));
        break;
      case 12: make_snapshot(dir); break;
      case 13: delete_a_snapshot(); break;
      case 14:
        if (pick(10) == 0) restart();
        break;
      case 15: note(rig.set_quota(dir, 1 + pick(60'000), 1 + pick(30))); break;
      case 16:
        if (pick(2) == 0) note(rig.unset_quota(dir));
        break;
      case 17:
        if (pick(2) == 0) note(rig.set_trash(dir, static_cast<int64_t>(pick(4) * pick(20)) * kMinute));
        break;
      case 18:
        for (const std::string& place : {dir, std::string("/"), "/" + directories_[0]})
          if (const auto entry = any_trashed(place))
            restore(place, *entry, pick(2) ? "" : other + "/" + any_of(files_));
        break;
      case 19:
        if (const auto entry = any_trashed(dir)) note(rig.empty_trash(dir, pick(2) ? entry->entry() : ""));
        break;
      case 20:
        if (pick(10) == 0) rig.pass(60);
        break;
      case 21:
        if (const auto found = rig.stat(file); found && found->type() == proto::Attributes::FILE)
          if (keep_session({found->inode()}, false).ok()) open_.push_back(found->inode());
        // Mostly it is removed while somebody has it open.
        if (pick(2) == 0) note(rig.remove(file));
        break;
      case 22:
      case 23: change_an_open_file(rig.inode(file)); break;
      case 24:
        if (pick(4) == 0) close_all();
        break;
      case 25:
        if (pick(2) == 0) restore_from_a_trashed_directory(path + "/" + any_of(directories_));
        break;
    }
    commits_work();
    if (pick(40) == 0) check();
  }

  void check() {
    for (const proto::Snapshot& snapshot : rig.snapshots()) {
      if (snapshot.deleting()) continue;
      const auto known = shown_.find({rig.inode(snapshot.path()), snapshot.name()});
      ASSERT_NE(known, shown_.end()) << snapshot.path() << " " << snapshot.name();
      ASSERT_EQ(rig.dump(path_of(snapshot)), known->second) << path_of(snapshot);
    }
    expect_nothing_is_kept_in_vain();
    rig.expect_references_exact();
    rig.settle();
    rig.expect_exact_quotas();
    EXPECT_EQ(fsck_lost_names(), 0u);
  }

  /// Everything is taken away again, and nothing is left.
  void end() {
    close_all();
    check();
    kept += rig.count(keys::Kind::kSaved);
    restart();  // as another process reads the same store
    check();
    rig.pass(61);  // after that, nothing counts as held only because somebody may still tell of it
    check();
    EXPECT_EQ(rig.count(keys::Kind::kOrphan), 0u);
    for (const proto::Snapshot& snapshot : rig.snapshots())
      if (!snapshot.deleting()) KINTSUGI_EXPECT_OK(rig.destroy(snapshot.path(), snapshot.name()));
    rig.settle();
    EXPECT_TRUE(rig.snapshots().empty());
    EXPECT_EQ(rig.count(keys::Kind::kSaved), 0u);
    EXPECT_EQ(rig.count(keys::Kind::kSavedFor), 0u);
    rig.expect_references_exact();
    for (const proto::Quota& quota : rig.quotas())
      KINTSUGI_EXPECT_OK(rig.unset_quota(quota.path()));
    while (rig.count(keys::Kind::kTrash) > 0 && !testing::Test::HasFailure())
      turn_trash_off();
    for (const std::string& name : rig.names("/"))
      KINTSUGI_EXPECT_OK(rig.remove("/" + name, true));
    rig.pass(90);  // nobody has heard of the session for long
    for (const keys::Kind kind : {keys::Kind::kStripe, keys::Kind::kExtent, keys::Kind::kTrashed,
                                  keys::Kind::kQuota, keys::Kind::kUnmarked, keys::Kind::kXattr})
      EXPECT_EQ(rig.count(kind), 0u) << static_cast<char>(kind);
    EXPECT_EQ(rig.count(keys::Kind::kInode), 1u);
    EXPECT_EQ(rig.meta->stats().stripes, 0u);
  }

  DirectoryRig rig;
  size_t made = 0, kept = 0, refused = 0, restored = 0, failed = 0;

 private:
  uint64_t pick(uint64_t below) { return rig.meta_node.runtime().random.next() % below; }
  const std::string& any_of(const std::vector<std::string>& names) { return names[pick(names.size())]; }
  std::string directory() {
    std::string path;
    for (uint64_t depth = pick(4); depth > 0; --depth)
      path += "/" + any_of(directories_);
    return path;
  }
  static std::string path_of(const proto::Snapshot& snapshot) {
    return (snapshot.path() == "/" ? "" : snapshot.path()) + "/.snapshots/" + snapshot.name();
  }
  void note(const Status& status) {
    refused += status.code() == Code::kQuota;
    failed += status.code() == Code::kUnavailable;
  }

  void fail_a_commit_sometimes() {
#ifdef KINTSUGI_FAULT_POINTS
    if (pick(12) != 0) return;
    ASSERT_TRUE(rig.meta_node.faults().set(
        {.point = runtime::FaultPoint::kStoreCommit, .action = runtime::FaultAction::kError, .times = 1}));
#endif
  }
  void commits_work() {
#ifdef KINTSUGI_FAULT_POINTS
    rig.meta_node.faults().clear();
#endif
  }
  void restart() {
    commits_work();
    rig.restart();
    // Until it has told what it has open, everything might be: nothing that was removed is cleared.
    (void)keep_session(open_, true);
  }

  void make_snapshot(const std::string& dir) {
    const std::string name = any_of(names_);
    if (rig.inode(dir) == 0) return;
    // What was removed is cleared in the background, also between the many calls of a dump: files lose the names that they
    // had there. Then the dump is not of the moment of the snapshot, which is not compared with it.
    const auto before = rig.inode_records();
    Dump now = rig.dump(dir == "/" ? "" : dir);
    const Status created = rig.create(dir, name);
    note(created);
    if (!created.ok()) return;
    commits_work();
    if (rig.inode_records() != before) {
      KINTSUGI_EXPECT_OK(rig.destroy(dir, name));
      return;
    }
    shown_[{rig.inode(dir), name}] = std::move(now);
    note_what_is_there(dir, name, before);
    ++made;
  }
  /// What has a name now, and what has none any more.
  void note_what_is_there(const std::string& dir, const std::string& name,
                          const std::map<std::string, std::string>& records) {
    There there;
    for (const auto& [key, value] : records) {
      const InodeId id{keys::first_id(key)};
      const auto inode = Reader::parse<proto::StoredInode>(value);
      const bool named = inode.links() > 0 || id == kRootInode;
      if (named) there.inodes.insert(id);
      (named ? there.contents : there.nameless_contents).insert(content_of(id, inode));
    }
    for (const InodeId content : there.contents)
      there.nameless_contents.erase(content);
    for (const proto::Snapshot& snapshot : rig.snapshots(dir))
      if (snapshot.name() == name && !snapshot.deleting()) there_[snapshot.number()] = there;
  }
  /// A record of what was made after a snapshot, or had lost its names before, can never be seen in it: it costs space only.
  void expect_nothing_is_kept_in_vain() {
    const keys::Range range = keys::all(keys::Kind::kSaved);
    rig.store->scan(range.begin, range.end, [&](std::string_view key, std::string_view value) {
      const keys::SavedKey at = keys::SavedKey::of_value(key);
      const auto there = there_.find(at.number);
      if (there == there_.end()) return true;
      const InodeId id{keys::first_id(at.key)};
      if (static_cast<keys::Kind>(at.key[0]) == keys::Kind::kExtent) {
        EXPECT_FALSE(SavedValue::parse(value).value && there->second.nameless_contents.contains(id))
            << "snapshot " << at.number << " keeps bytes of a file that had no name, content " << id;
      } else {
        EXPECT_TRUE(there->second.inodes.contains(id))
            << "snapshot " << at.number << " keeps a record '" << at.key[0] << "' of inode " << id
            << ", which was not there";
      }
      return !testing::Test::HasFailure();
    });
  }
  Status keep_session(const std::vector<uint64_t>& open, bool all, bool ends = false) {
    proto::KeepSessionRequest request;
    request.set_session(kSession);
    for (const uint64_t id : open)
      request.add_hold(id);
    request.set_all(all);
    request.set_ends(ends);
    const auto answer = rig.call<proto::KeepSessionResponse>(rpc::Method::kKeepSession, request);
    return answer ? Status{} : answer.error();
  }
  void change_an_open_file(uint64_t another) {
    if (open_.empty()) return;
    const uint64_t id = open_[pick(open_.size())];
    (void)keep_session({id}, false);  // it may have been silent for too long, and then the file is gone
    switch (pick(3)) {
      case 0: note(rig.set_size(id, pick(3000))); break;
      case 1: note(rig.copy(another, id)); break;
      case 2: note(rig.set_xattr(id, fmt::format("v{}", pick(1000)), "user." + any_of(attributes_))); break;
    }
  }
  void close_all() {
    open_.clear();
    (void)keep_session({}, true, true);
  }
  void delete_a_snapshot() {
    const auto all = rig.snapshots();
    if (all.empty() || pick(2) == 0) return;
    const proto::Snapshot& snapshot = all[pick(all.size())];
    note(rig.destroy(snapshot.path(), snapshot.name()));
  }
  std::optional<proto::Trashed> any_trashed(const std::string& dir) {
    proto::ListTrashRequest request;
    request.set_path(dir);
    const auto all = rig.call<proto::ListTrashResponse>(rpc::Method::kListTrash, request);
    if (!all || all->entries().empty()) return std::nullopt;
    return all->entries(static_cast<int>(pick(static_cast<uint64_t>(all->entries_size()))));
  }
  /// Something of the directory is removed, then the directory itself: where it was is in the trash, too.
  void restore_from_a_trashed_directory(const std::string& dir) {
    note(rig.put(dir + "/" + files_[0], 1, 1 + pick(3000), true));
    note(rig.remove(dir + "/" + files_[0]));
    note(rig.put(dir + "/" + files_[1], 1, 1 + pick(3000), true));
    note(rig.remove(dir, true));
    const std::string parent = dir.substr(0, dir.rfind('/'));
    proto::ListTrashRequest request;
    request.set_path(parent.empty() ? "/" : parent);
    const auto all = rig.call<proto::ListTrashResponse>(rpc::Method::kListTrash, request);
    if (!all) return;
    for (const proto::Trashed& entry : all->entries())
      if (is_in_trash(entry.path())) restore(request.path(), entry, "");
  }
  static bool is_in_trash(const std::string& path) {
    return (path + "/").find(fmt::format("/{}/", kTrashName)) != std::string::npos;
  }
  void restore(const std::string& dir, const proto::Trashed& entry, const std::string& to) {
    const auto path = rig.restore_trash(dir, entry.entry(), to);
    if (!path) {
      note(path.error());
      return;
    }
    commits_work();
    const auto back = rig.stat(*path);
    ASSERT_TRUE(back) << *path << " " << back.error();
    EXPECT_EQ(back->inode(), entry.attributes().inode());
    EXPECT_EQ(back->size(), entry.attributes().size());
    EXPECT_FALSE(is_in_trash(*path)) << *path << ": it comes back into a trash";
    ++restored;
  }
  void turn_trash_off() {
    std::vector<std::string> paths;
    const keys::Range range = keys::all(keys::Kind::kTrash);
    rig.store->scan(range.begin, range.end, [&](std::string_view key, std::string_view value) {
      const auto trash = Reader::parse<proto::StoredTrash>(value);
      if (trash.retention_ns() > 0)
        paths.push_back(metaserver::path_of(*rig.store, InodeId{keys::first_id(key)}, trash.path()));
      return true;
    });
    for (const std::string& path : paths)
      KINTSUGI_EXPECT_OK(rig.set_trash(path, 0));
    rig.pass(5);
  }
  uint64_t fsck_lost_names() {
    uint64_t lost = 0;
    proto::FsckRequest request;
    request.set_path("/");
    for (bool more = true; more;) {
      const auto page = rig.call<proto::FsckResponse>(rpc::Method::kFsck, request);
      EXPECT_TRUE(page) << page.error();
      if (!page) return lost;
      for (const proto::FsckSnapshot& snapshot : page->damaged_snapshots()) {
        ADD_FAILURE() << snapshot.name() << " of " << snapshot.path() << ": " << snapshot.detail();
        lost += snapshot.entries();
      }
      more = page->more();
      request.set_after(page->next_after());
      request.set_from_offset(page->next_from_offset());
    }
    return lost;
  }

  const std::vector<std::string> files_, directories_, attributes_, names_;
  struct There {
    std::set<InodeId> inodes, contents, nameless_contents;
  };
  std::map<std::pair<uint64_t, std::string>, Dump> shown_;  ///< what snapshots showed, by directory and name
  std::map<uint64_t, There> there_;                         ///< when snapshots were made, by number
  std::vector<uint64_t> open_;                              ///< what the session may hold
};

TEST(DirectoryHistories, SnapshotsStayQuotasAreExactAndTrashComesBack) {
  size_t made = 0, kept = 0, refused = 0, restored = 0;
  [[maybe_unused]] size_t failed = 0;  // Commits fail where fault points are built in.
  const TestSeeds seeds(12);
  for (uint64_t seed = seeds.first(); seed < seeds.end(); ++seed) {
    SCOPED_TRACE(TestSeeds::replay(seed));
    History history(seed);
    for (int i = 0; i < 720 && !testing::Test::HasFailure(); ++i)
      history.step();
    history.end();
    if (testing::Test::HasFailure()) return;
    made += history.made;
    kept += history.kept;
    refused += history.refused;
    restored += history.restored;
    failed += history.failed;
  }
  if (!seeds.many()) return;
  EXPECT_GT(made, 50u);
  EXPECT_GT(kept, 500u);
  EXPECT_GT(refused, 100u);
  EXPECT_GT(restored, 10u);
#ifdef KINTSUGI_FAULT_POINTS
  EXPECT_GT(failed, 20u);
#endif
}

}  // namespace
}  // namespace kintsugi::metaserver
