// Snapshots of directories: what they show stays as it was whatever happens, nothing in them can be changed, and what they keep
// is freed with the last one that needs it.
#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {
namespace {

using Dump = std::map<std::string, std::string>;

class SnapshotRig : public MetaServerRig {
 public:
  using MetaServerRig::MetaServerRig;

  void restart() {
    MetaServerRig::restart();
    heartbeat_all();
  }

  Status create(const std::string& path, const std::string& name) {
    proto::CreateSnapshotRequest request;
    request.set_path(path);
    request.set_name(name);
    return status_of(call<proto::Empty>(rpc::Method::kCreateSnapshot, request));
  }
  Status destroy(const std::string& path, const std::string& name) {
    proto::DeleteSnapshotRequest request;
    request.set_path(path);
    request.set_name(name);
    return status_of(call<proto::Empty>(rpc::Method::kDeleteSnapshot, request));
  }
  std::vector<proto::Snapshot> snapshots(const std::string& path = "") {
    proto::ListSnapshotsRequest request;
    request.set_path(path);
    const auto answer = call<proto::ListSnapshotsResponse>(rpc::Method::kListSnapshots, request);
    EXPECT_TRUE(answer) << answer.error();
    return {answer->snapshots().begin(), answer->snapshots().end()};
  }
  Result<proto::Attributes> stat(const std::string& path) {
    proto::StatRequest request;
    request.set_path(path);
    const auto answer = call<proto::StatResponse>(rpc::Method::kStat, request);
    if (!answer) return answer.error();
    return answer->attributes();
  }
  uint64_t inode(const std::string& path) {
    const auto found = stat(path);
    return found ? found->inode() : 0;
  }
  Result<proto::Attributes> lookup(uint64_t parent, const std::string& name) {
    proto::LookupRequest request;
    request.set_parent(parent);
    request.set_name(name);
    const auto answer = call<proto::InodeResponse>(rpc::Method::kLookup, request);
    if (!answer) return answer.error();
    return answer->attributes();
  }
  std::vector<std::string> names(const std::string& path) {
    proto::ListRequest request;
    request.set_path(path);
    const auto answer = call<proto::ListResponse>(rpc::Method::kList, request);
    std::vector<std::string> names;
    EXPECT_TRUE(answer) << answer.error();
    if (answer)
      for (const auto& entry : answer->entries())
        names.push_back(entry.name());
    return names;
  }
  Status rename(const std::string& from, const std::string& to, bool replace = false) {
    proto::RenameRequest request;
    request.set_from(from);
    request.set_to(to);
    request.set_replace(replace);
    return status_of(call<proto::Empty>(rpc::Method::kRename, request));
  }
  Status link(uint64_t id, uint64_t parent, const std::string& name) {
    proto::LinkRequest request;
    request.set_inode(id);
    request.set_parent(parent);
    request.set_name(name);
    return status_of(call<proto::InodeResponse>(rpc::Method::kLink, request));
  }
  Status set_size(uint64_t id, uint64_t size) {
    proto::SetAttributesRequest request;
    request.set_inode(id);
    request.set_size(size);
    return status_of(call<proto::InodeResponse>(rpc::Method::kSetAttributes, request));
  }
  Status set_mode(uint64_t id, uint32_t mode) {
    proto::SetAttributesRequest request;
    request.set_inode(id);
    request.set_mode(mode);
    return status_of(call<proto::InodeResponse>(rpc::Method::kSetAttributes, request));
  }
  Status set_xattr(uint64_t id, const std::string& value) {
    proto::SetXattrRequest request;
    request.set_inode(id);
    request.set_name("user.x");
    request.set_value(value);
    return status_of(call<proto::Empty>(rpc::Method::kSetXattr, request));
  }
  std::string xattr(uint64_t id) {
    proto::GetXattrRequest request;
    request.set_inode(id);
    request.set_name("user.x");
    const auto answer = call<proto::GetXattrResponse>(rpc::Method::kGetXattr, request);
    return answer ? answer->value() : "";
  }
  Status copy(uint64_t from, uint64_t to) {
    proto::CopyExtentsRequest request;
    request.set_from(from);
    request.set_to(to);
    request.set_length(1 << 20);
    return status_of(call<proto::CopyExtentsResponse>(rpc::Method::kCopyExtents, request));
  }

  /// All that can be seen of what is below a directory.
  Dump dump(const std::string& root) {
    Dump found;
    dump(root, "", found);
    return found;
  }
  void settle() { pass(10); }
  size_t count(keys::Kind kind) {
    size_t found = 0;
    const keys::Range range = keys::all(kind);
    store->scan(range.begin, range.end, [&](std::string_view, std::string_view) { return ++found > 0; });
    return found;
  }
  /// Each stripe counts the extents that name it, saved ones too, and there is none that nobody names.
  void expect_references_exact() {
    std::map<uint64_t, uint64_t> references;
    const keys::Range extents = keys::all(keys::Kind::kExtent), saved = keys::all(keys::Kind::kSaved);
    store->scan(extents.begin, extents.end, [&](std::string_view, std::string_view value) {
      ++references[Reader::parse<proto::StoredExtent>(value).stripe_id()];
      return true;
    });
    store->scan(saved.begin, saved.end, [&](std::string_view key, std::string_view value) {
      if (static_cast<keys::Kind>(keys::key_of_saved(key)[0]) != keys::Kind::kExtent) return true;
      const SavedValue old = SavedValue::parse(value);
      if (old.value) ++references[Reader::parse<proto::StoredExtent>(*old.value).stripe_id()];
      return true;
    });
    const keys::Range stripes = keys::all(keys::Kind::kStripe);
    size_t seen = 0;
    store->scan(stripes.begin, stripes.end, [&](std::string_view key, std::string_view value) {
      EXPECT_EQ(Reader::parse<proto::StoredStripe>(value).references(), references[keys::first_id(key)]);
      return ++seen > 0;
    });
    EXPECT_EQ(seen, references.size()) << "every stripe that is named is there, and no other";
  }

 private:
  static std::string text(const proto::Attributes& attributes) {
    return fmt::format("type {} mode {:o} size {} links {} modified {} changed {} used {}",
                       static_cast<int>(attributes.type()), attributes.mode(), attributes.size(),
                       attributes.links(), attributes.modified_ns(), attributes.changed_ns(),
                       attributes.used_bytes());
  }
  void dump(const std::string& root, const std::string& below, Dump& found) {
    proto::ListRequest request;
    request.set_path((root + below).empty() ? "/" : root + below);
    const auto listed = call<proto::ListResponse>(rpc::Method::kList, request);
    ASSERT_TRUE(listed) << listed.error();
    found[below] = text(listed->self());
    for (const auto& entry : listed->entries()) {
      const std::string path = below + "/" + entry.name();
      if (entry.attributes().type() == proto::Attributes::DIRECTORY) {
        dump(root, path, found);
        continue;
      }
      std::string& shown = found[path] = text(entry.attributes());
      const auto opened = open(root + path);
      ASSERT_TRUE(opened) << opened.error();
      EXPECT_EQ(opened->attributes().inode(), entry.attributes().inode());
      for (const auto& extent : opened->extents())
        shown += fmt::format(" {}+{}={}:{}", extent.file_offset(), extent.length(), extent.stripe_id(),
                             extent.stripe_offset());
      shown += " " + xattr(entry.attributes().inode());
    }
  }
};

TEST(Snapshots, ShowWhatWasThereAndCannotBeChanged) {
  SnapshotRig rig;
  KINTSUGI_ASSERT_OK(rig.make_directory("/d"));
  KINTSUGI_ASSERT_OK(rig.make_directory("/d/sub"));
  KINTSUGI_ASSERT_OK(rig.put("/d/old", 3));
  KINTSUGI_ASSERT_OK(rig.put("/d/sub/f", 2));
  KINTSUGI_ASSERT_OK(rig.set_xattr(rig.inode("/d/old"), "before"));
  const Dump before = rig.dump("/d");
  EXPECT_FALSE(rig.exists("/d/.snapshots"));
  KINTSUGI_ASSERT_OK(rig.create("/d", "one"));
  EXPECT_EQ(rig.create("/d", "one").code(), Code::kAlreadyExists);
  EXPECT_EQ(rig.create("/d", "a/b").code(), Code::kInvalidArgument);
  EXPECT_EQ(rig.create("/d/old", "x").code(), Code::kNotDirectory);
  EXPECT_EQ(rig.create("/nowhere", "x").code(), Code::kNotFound);
  EXPECT_EQ(rig.dump("/d/.snapshots/one"), before);

  KINTSUGI_EXPECT_OK(rig.put("/d/old", 1, 1000, true));
  KINTSUGI_EXPECT_OK(rig.set_xattr(rig.inode("/d/old"), "after"));
  KINTSUGI_EXPECT_OK(rig.set_size(rig.inode("/d/sub/f"), 5));
  KINTSUGI_EXPECT_OK(rig.rename("/d/sub/f", "/d/g"));
  KINTSUGI_EXPECT_OK(rig.remove("/d/sub"));
  KINTSUGI_EXPECT_OK(rig.put("/d/new"));
  EXPECT_EQ(rig.dump("/d/.snapshots/one"), before);
  const Dump middle = rig.dump("/d");
  KINTSUGI_ASSERT_OK(rig.create("/d", "two"));
  KINTSUGI_EXPECT_OK(rig.remove("/d/old"));
  KINTSUGI_EXPECT_OK(rig.set_mode(rig.inode("/d"), 0700));
  rig.settle();
  rig.restart();
  EXPECT_EQ(rig.dump("/d/.snapshots/one"), before);
  EXPECT_EQ(rig.dump("/d/.snapshots/two"), middle);
  EXPECT_EQ(rig.names("/d"), (std::vector<std::string>{"g", "new"})) << "they are found and not listed";
  EXPECT_EQ(rig.names("/d/.snapshots"), (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(rig.snapshots("/d").size(), 2u);
  EXPECT_EQ(rig.snapshots()[0].kept_bytes(), 5u * 300'000);

  // By inode: ids are of their own, the way up ends where it began, and nothing can be changed.
  const uint64_t live = rig.inode("/d"), list = rig.inode("/d/.snapshots"),
                 root = rig.inode("/d/.snapshots/one"), file = rig.inode("/d/.snapshots/one/old");
  EXPECT_EQ(rig.lookup(live, ".snapshots")->inode(), list);
  EXPECT_EQ(rig.lookup(list, "one")->inode(), root);
  EXPECT_EQ(rig.lookup(root, "old")->inode(), file);
  EXPECT_EQ(rig.lookup(rig.lookup(root, "sub")->inode(), "..")->inode(), root);
  EXPECT_EQ(rig.lookup(root, "..")->inode(), list);
  EXPECT_EQ(rig.lookup(list, "..")->inode(), live);
  EXPECT_EQ(rig.lookup(list, "three").error().code(), Code::kNotFound);
  EXPECT_EQ(rig.xattr(file), "before");
  EXPECT_EQ(std::set<uint64_t>({live, list, root, file, rig.inode("/d/.snapshots/two")}).size(), 5u);
  EXPECT_EQ(rig.set_size(file, 1).code(), Code::kReadOnly);
  EXPECT_EQ(rig.set_mode(root, 0777).code(), Code::kReadOnly);
  EXPECT_EQ(rig.set_xattr(file, "x").code(), Code::kReadOnly);
  EXPECT_EQ(rig.link(file, live, "l").code(), Code::kReadOnly);
  EXPECT_EQ(rig.link(rig.inode("/d/g"), root, "l").code(), Code::kReadOnly);
  EXPECT_EQ(rig.copy(rig.inode("/d/g"), file).code(), Code::kReadOnly);
  for (const std::string path : {"/d/.snapshots/one/x", "/d/.snapshots/one/old", "/d/.snapshots/x"}) {
    EXPECT_EQ(rig.put(path, 1, 100, true).code(), Code::kReadOnly) << path;
    EXPECT_EQ(rig.make_directory(path).code(), Code::kReadOnly) << path;
    EXPECT_EQ(rig.remove(path, true).code(), Code::kReadOnly) << path;
    EXPECT_EQ(rig.rename(path, "/d/y").code(), Code::kReadOnly) << path;
    EXPECT_EQ(rig.rename("/d/g", path).code(), Code::kReadOnly) << path;
  }
  // A file comes back by sharing what the snapshot keeps.
  KINTSUGI_EXPECT_OK(rig.put("/d/back", 1, 1));
  KINTSUGI_EXPECT_OK(rig.copy(file, rig.inode("/d/back")));
  EXPECT_EQ(rig.stat("/d/back")->size(), 900'000u);
  rig.expect_references_exact();

  KINTSUGI_EXPECT_OK(rig.destroy("/d", "one"));
  EXPECT_EQ(rig.destroy("/d", "one").code(), Code::kNotFound);
  EXPECT_FALSE(rig.exists("/d/.snapshots/one/old"));
  EXPECT_EQ(rig.lookup(root, "old").error().code(), Code::kStale);
  rig.settle();
  EXPECT_EQ(rig.dump("/d/.snapshots/two"), middle);
  rig.expect_references_exact();
  rig.expect_all_chunks_in_place();
  // Ids that nobody was given.
  for (const uint64_t id :
       {~uint64_t{0}, uint64_t{1} << 63, list + 999, root | 0xffffff, file ^ (uint64_t{5} << 53)})
    EXPECT_EQ(rig.lookup(id, "x").error().code(), Code::kStale) << id;
}

TEST(Snapshots, KeepTheirDirectoryAndWhatIsBelowItThere) {
  SnapshotRig rig;
  for (const char* path : {"/a", "/a/d", "/a/d/sub", "/b"})
    KINTSUGI_ASSERT_OK(rig.make_directory(path));
  KINTSUGI_ASSERT_OK(rig.put("/a/d/f"));
  KINTSUGI_ASSERT_OK(rig.put("/b/g"));
  KINTSUGI_ASSERT_OK(rig.create("/a/d", "s"));
  EXPECT_EQ(rig.rename("/a/d/f", "/b/f").code(), Code::kCrossDevice);
  EXPECT_EQ(rig.rename("/a/d/sub", "/a/sub").code(), Code::kCrossDevice);
  KINTSUGI_EXPECT_OK(rig.rename("/b/g", "/a/d/sub/g"));
  KINTSUGI_EXPECT_OK(rig.rename("/a/d", "/b/e"));
  EXPECT_EQ(rig.snapshots()[0].path(), "/b/e");
  EXPECT_TRUE(rig.exists("/b/e/.snapshots/s/f"));
  EXPECT_FALSE(rig.exists("/b/e/.snapshots/s/sub/g"));
  EXPECT_EQ(rig.remove("/b/e", true).code(), Code::kNotEmpty);
  EXPECT_EQ(rig.remove("/b", true).code(), Code::kNotEmpty);
  EXPECT_EQ(rig.make_directory("/b/e/.snapshots").code(), Code::kReadOnly);
  EXPECT_EQ(rig.rename("/b/e/f", "/b/e/.snapshots").code(), Code::kReadOnly);
  KINTSUGI_EXPECT_OK(rig.make_directory("/a/.snapshots")) << "elsewhere it is a name like others";
  EXPECT_EQ(rig.create("/a", "s").code(), Code::kAlreadyExists);
  KINTSUGI_EXPECT_OK(rig.destroy("/b/e", "s"));
  rig.settle();
  KINTSUGI_EXPECT_OK(rig.rename("/b/e/f", "/a/f"));
  KINTSUGI_EXPECT_OK(rig.remove("/b", true));
}

TEST(Snapshots, HoldFilesThatAreHeldAndGetANameElsewhere) {
  SnapshotRig rig;
  for (const char* path : {"/a", "/b"})
    KINTSUGI_ASSERT_OK(rig.make_directory(path));
  KINTSUGI_ASSERT_OK(rig.put("/a/f", 2));
  KINTSUGI_ASSERT_OK(rig.put("/a/two", 2));
  const uint64_t file = rig.inode("/a/f"), two = rig.inode("/a/two");
  KINTSUGI_ASSERT_OK(rig.link(two, rig.inode("/b"), "two"));
  KINTSUGI_ASSERT_OK(rig.create("/a", "s"));
  const Dump before = rig.dump("/a/.snapshots/s");
  proto::KeepSessionRequest hold;
  hold.set_session(7);
  hold.add_hold(file);
  ASSERT_TRUE(rig.call<proto::KeepSessionResponse>(rpc::Method::kKeepSession, hold));
  KINTSUGI_ASSERT_OK(rig.remove("/a/f"));
  KINTSUGI_ASSERT_OK(rig.link(file, rig.inode("/b"), "f"));
  KINTSUGI_EXPECT_OK(rig.set_size(file, 10));
  KINTSUGI_EXPECT_OK(rig.remove("/a/two"));
  KINTSUGI_EXPECT_OK(rig.rename("/b/two", "/b/renamed"));
  KINTSUGI_EXPECT_OK(rig.set_size(two, 10));
  KINTSUGI_EXPECT_OK(rig.remove("/b", true));
  rig.settle();
  EXPECT_EQ(rig.dump("/a/.snapshots/s"), before);
  rig.expect_references_exact();
}

TEST(Snapshots, AreCoveredByFsckAndByRepair) {
  SnapshotRig rig(1, 9);
  KINTSUGI_ASSERT_OK(rig.make_directory("/d"));
  KINTSUGI_ASSERT_OK(rig.put("/d/f", 30));
  KINTSUGI_ASSERT_OK(rig.put("/other", 2));
  KINTSUGI_ASSERT_OK(rig.create("/d", "s"));
  KINTSUGI_ASSERT_OK(rig.remove("/d/f"));
  rig.settle();
  EXPECT_EQ(rig.fsck().stripes(), 32u);
  EXPECT_EQ(rig.fsck().problems_size(), 0);
  const StripeId stripe{rig.open("/d/.snapshots/s/f")->stripes(0).stripe_id()};
  const ServerId holder{load_stripe(*rig.store, stripe)->chunks(0).server_id()};
  rig.server(holder).chunks.erase({stripe, 0});
  rig.server(holder).lost.push_back({stripe, 0});
  rig.pass(2);
  const bool told = std::any_of(rig.told.lost.begin(), rig.told.lost.end(),
                                [&](const auto& lost) { return lost.first == ChunkId{stripe, 0}; });
  EXPECT_TRUE(told) << "the repair manager hears of it";
  const proto::FsckResponse checked = rig.fsck();
  ASSERT_EQ(checked.problems_size(), 1);
  EXPECT_TRUE(checked.problems(0).path().starts_with("/d/.snapshots/s")) << checked.problems(0).path();
  EXPECT_EQ(checked.problems(0).stripe_id(), stripe.value);
  // Page after page finds the same.
  proto::FsckRequest request;
  request.set_path("/d");
  request.set_with_stripes(true);
  std::set<uint64_t> listed;
  for (bool more = true; more;) {
    const auto page = rig.call<proto::FsckResponse>(rpc::Method::kFsck, request);
    ASSERT_TRUE(page) << page.error();
    for (const auto& one : page->listed())
      listed.insert(one.stripe().stripe_id());
    more = page->more();
    request.set_after(page->next_after());
    request.set_skip_stripes(page->next_skip());
  }
  EXPECT_EQ(listed.size(), 30u);
}

TEST(Snapshots, AreLimitedInNumber) {
  SnapshotRig rig;
  KINTSUGI_ASSERT_OK(rig.make_directory("/d"));
  for (size_t i = 0; i < kMaxSnapshots; ++i)
    KINTSUGI_ASSERT_OK(rig.create("/d", fmt::format("{}", i)));
  EXPECT_EQ(rig.create("/d", "more").code(), Code::kLimitExceeded);
  KINTSUGI_EXPECT_OK(rig.destroy("/d", "500"));
  rig.settle();
  KINTSUGI_EXPECT_OK(rig.create("/d", "more"));
  std::set<uint64_t> ids;
  for (const proto::Snapshot& snapshot : rig.snapshots())
    ids.insert(rig.inode("/d/.snapshots/" + snapshot.name()));
  EXPECT_EQ(ids.size(), kMaxSnapshots);
}

TEST(Snapshots, StayAsTheyWereWhateverHappens) {
  size_t made = 0, kept = 0;
  for (const uint64_t seed : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    SnapshotRig rig(seed);
    runtime::Random& random = rig.meta_node.runtime().random;
    const auto pick = [&](uint64_t below) { return random.next() % below; };
    const auto directory = [&] {
      std::string path;
      for (uint64_t depth = pick(4); depth > 0; --depth)
        path += fmt::format("/d{}", pick(2));
      return path;
    };
    std::map<std::pair<uint64_t, std::string>, Dump> shown;  // by directory and name
    const auto path_of_snapshot = [&](const proto::Snapshot& snapshot) {
      return (snapshot.path() == "/" ? "" : snapshot.path()) + "/.snapshots/" + snapshot.name();
    };
    const auto check_all = [&] {
      for (const proto::Snapshot& snapshot : rig.snapshots()) {
        if (snapshot.deleting()) continue;
        const auto known = shown.find({rig.inode(snapshot.path()), snapshot.name()});
        ASSERT_NE(known, shown.end());
        ASSERT_EQ(rig.dump(path_of_snapshot(snapshot)), known->second) << path_of_snapshot(snapshot);
      }
      rig.expect_references_exact();
    };
    for (int i = 0; i < 600 && !testing::Test::HasFailure(); ++i) {
      const std::string path = directory(), other = directory();
      const std::string file = fmt::format("{}/f{}", path, pick(3)), dir = path.empty() ? "/" : path;
      switch (pick(15)) {
        case 0:
        case 1: (void)rig.make_directory(fmt::format("{}/d{}", path, pick(2))); break;
        case 2:
        case 3: (void)rig.put(file, static_cast<int>(pick(4) == 0 ? 20 : 1), 1 + pick(3000), true); break;
        case 4: (void)rig.remove(file); break;
        case 5: (void)rig.rename(file, fmt::format("{}/f{}", other, pick(3)), true); break;
        case 6:
          (void)rig.rename(fmt::format("{}/d{}", path, pick(2)), fmt::format("{}/d{}", other, pick(2)));
          break;
        case 7:
          if (pick(3) == 0) (void)rig.remove(fmt::format("{}/d{}", path, pick(2)), true);
          break;
        case 8: (void)rig.set_size(rig.inode(file), pick(2) * pick(4000)); break;
        case 9: (void)rig.copy(rig.inode(file), rig.inode(fmt::format("{}/f{}", other, pick(3)))); break;
        case 10:
          if (pick(3) == 0)
            (void)rig.link(rig.inode(file), rig.inode(other.empty() ? "/" : other),
                           fmt::format("f{}", pick(3)));
          break;
        case 11:
          (void)(pick(2) ? rig.set_mode(rig.inode(file), pick(512)) : rig.set_xattr(rig.inode(file), "v"));
          break;
        case 12: {
          const std::string name = fmt::format("s{}", i);
          if (rig.inode(dir) == 0) break;
          Dump now = rig.dump(dir == "/" ? "" : dir);
          if (!rig.create(dir, name).ok()) break;
          shown[{rig.inode(dir), name}] = std::move(now);
          ++made;
          break;
        }
        case 13: {
          const auto all = rig.snapshots();
          if (all.empty() || pick(2) == 0) break;
          const proto::Snapshot& snapshot = all[pick(all.size())];
          (void)rig.destroy(snapshot.path(), snapshot.name());
          break;
        }
        case 14:
          if (pick(10) == 0) rig.restart();
          break;
      }
      if (pick(40) == 0) check_all();
      if (pick(40) == 0) rig.settle();
    }
    check_all();
    kept += rig.count(keys::Kind::kSaved);
    // Also as another process reads the same store.
    rig.restart();
    rig.settle();
    check_all();
    for (const proto::Snapshot& snapshot : rig.snapshots())
      if (!snapshot.deleting()) KINTSUGI_EXPECT_OK(rig.destroy(snapshot.path(), snapshot.name()));
    rig.settle();
    EXPECT_TRUE(rig.snapshots().empty());
    EXPECT_EQ(rig.count(keys::Kind::kSaved), 0u);
    EXPECT_EQ(rig.count(keys::Kind::kSavedFor), 0u);
    rig.expect_references_exact();
    for (const std::string& name : rig.names("/"))
      KINTSUGI_EXPECT_OK(rig.remove("/" + name, true));
    rig.settle();
    EXPECT_EQ(rig.count(keys::Kind::kStripe), 0u);
    EXPECT_EQ(rig.count(keys::Kind::kExtent), 0u);
    EXPECT_EQ(rig.count(keys::Kind::kInode), 1u);
    EXPECT_EQ(rig.meta->stats().stripes, 0u);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(made, 50u);
  EXPECT_GT(kept, 500u);
}

}  // namespace
}  // namespace kintsugi::metaserver
