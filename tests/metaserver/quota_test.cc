// Quotas of directories: exact limits, nesting, what moves between them, and counts that stay right whatever happens while
// they are taken.
#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kFileBytes = 300'000;  ///< of one put()

class QuotaRig : public MetaServerRig {
 public:
  using MetaServerRig::MetaServerRig;

  void restart() {
    MetaServerRig::restart();
    heartbeat_all();
  }

  Status set(const std::string& path, std::optional<uint64_t> max_bytes, std::optional<uint64_t> max_files) {
    proto::SetQuotaRequest request;
    request.set_path(path);
    if (max_bytes) request.set_max_bytes(*max_bytes);
    if (max_files) request.set_max_files(*max_files);
    return status_of(call<proto::Empty>(rpc::Method::kSetQuota, request));
  }
  Status unset(const std::string& path) { return set(path, std::nullopt, std::nullopt); }
  std::vector<proto::Quota> at(const std::string& path) {
    proto::GetQuotasRequest request;
    request.set_path(path);
    const auto answer = call<proto::GetQuotasResponse>(rpc::Method::kGetQuotas, request);
    EXPECT_TRUE(answer) << answer.error();
    return {answer->quotas().begin(), answer->quotas().end()};
  }
  proto::Quota nearest(const std::string& path) {
    const auto quotas = at(path);
    EXPECT_FALSE(quotas.empty());
    return quotas.empty() ? proto::Quota{} : quotas.front();
  }
  std::vector<proto::Quota> all() {
    const auto answer = call<proto::ListQuotasResponse>(rpc::Method::kListQuotas, proto::ListQuotasRequest{});
    return {answer->quotas().begin(), answer->quotas().end()};
  }
  Status rename(const std::string& from, const std::string& to, bool replace = false) {
    proto::RenameRequest request;
    request.set_from(from);
    request.set_to(to);
    request.set_replace(replace);
    return status_of(call<proto::Empty>(rpc::Method::kRename, request));
  }
  uint64_t inode(const std::string& path) {
    proto::StatRequest request;
    request.set_path(path);
    const auto answer = call<proto::StatResponse>(rpc::Method::kStat, request);
    return answer ? answer->attributes().inode() : 0;
  }
  Status link(const std::string& path, const std::string& directory, const std::string& name) {
    proto::LinkRequest request;
    request.set_inode(inode(path));
    request.set_parent(inode(directory));
    request.set_name(name);
    return status_of(call<proto::InodeResponse>(rpc::Method::kLink, request));
  }
  Status truncate(const std::string& path, uint64_t size) {
    proto::SetAttributesRequest request;
    request.set_inode(inode(path));
    request.set_size(size);
    return status_of(call<proto::InodeResponse>(rpc::Method::kSetAttributes, request));
  }
  /// What is below a directory, as a walk finds it; every inode once.
  std::pair<uint64_t, uint64_t> count(InodeId directory) {
    std::map<uint64_t, uint64_t> bytes;
    count(directory, bytes);
    uint64_t sum = 0;
    for (const auto& [id, used] : bytes)
      sum += used;
    return {sum, bytes.size()};
  }
  /// The task that counts has nothing left to do.
  void settle() { pass(5); }
  void expect_exact() {
    for (const proto::Quota& quota : all()) {
      const auto [bytes, files] = count(InodeId{quota.directory()});
      EXPECT_EQ(quota.bytes(), bytes) << quota.path();
      EXPECT_EQ(quota.files(), files) << quota.path();
      EXPECT_FALSE(quota.counting()) << quota.path();
    }
  }

 private:
  void count(InodeId directory, std::map<uint64_t, uint64_t>& bytes) {
    store->scan(keys::entries(directory).begin, keys::entries(directory).end,
                [&](std::string_view, std::string_view value) {
                  const InodeId id{Reader::parse<proto::StoredDirectoryEntry>(value).inode()};
                  const auto child = load_inode(*store, id);
                  bytes[id.value] = child.used_bytes();
                  if (is_directory(child)) count(id, bytes);
                  return true;
                });
  }
};

TEST(Quotas, LimitFilesAndBytesExactly) {
  QuotaRig rig;
  KINTSUGI_ASSERT_OK(rig.make_directory("/a"));
  KINTSUGI_ASSERT_OK(rig.set("/a", 3 * kFileBytes, 4));
  KINTSUGI_EXPECT_OK(rig.put("/a/1"));
  KINTSUGI_EXPECT_OK(rig.put("/a/2"));
  KINTSUGI_EXPECT_OK(rig.put("/a/3"));
  EXPECT_EQ(rig.put("/a/4", 1, 1).code(), Code::kQuota) << "a single byte more than there may be";
  EXPECT_FALSE(rig.exists("/a/4"));
  KINTSUGI_EXPECT_OK(rig.put("/a/3", 1, kFileBytes, true)) << "what is replaced makes room for it";
  KINTSUGI_EXPECT_OK(rig.make_directory("/a/d"));
  EXPECT_EQ(rig.make_directory("/a/d/e").code(), Code::kQuota);
  EXPECT_EQ(rig.link("/a/1", "/a/d", "l").code(), Code::kOk) << "another name is no other file";
  KINTSUGI_EXPECT_OK(rig.truncate("/a/1", 100));
  KINTSUGI_EXPECT_OK(rig.remove("/a/2"));
  KINTSUGI_EXPECT_OK(rig.put("/a/5"));
  EXPECT_EQ(rig.nearest("/a/d").bytes(), 2 * kFileBytes + 100);
  EXPECT_EQ(rig.nearest("/a/1").files(), 4u);
  rig.expect_exact();
  KINTSUGI_EXPECT_OK(rig.put("/outside", 3));
  KINTSUGI_EXPECT_OK(rig.set("/a", 100, 1)) << "less than what is there";
  EXPECT_EQ(rig.put("/a/6", 1, 1).code(), Code::kQuota);
  EXPECT_EQ(rig.put("/a/5", 1, kFileBytes / 2, true).code(), Code::kOk) << "what gets smaller is fine";
  KINTSUGI_EXPECT_OK(rig.rename("/a/5", "/a/d/5"));
  KINTSUGI_EXPECT_OK(rig.remove("/a/d", true));
  KINTSUGI_EXPECT_OK(rig.unset("/a"));
  KINTSUGI_EXPECT_OK(rig.put("/a/6", 9));
  rig.settle();
  EXPECT_TRUE(rig.all().empty());
  EXPECT_EQ(rig.unset("/a").code(), Code::kNotFound);
  EXPECT_EQ(rig.set("/a/6", 1, 1).code(), Code::kNotDirectory);
  EXPECT_EQ(rig.set("/nowhere", 1, 1).code(), Code::kNotFound);
}

TEST(Quotas, OfAnInnerDirectoryCountForTheOuterOne) {
  QuotaRig rig;
  KINTSUGI_ASSERT_OK(rig.make_directory("/a"));
  KINTSUGI_ASSERT_OK(rig.make_directory("/a/b"));
  KINTSUGI_ASSERT_OK(rig.set("/a", 2 * kFileBytes, std::nullopt));
  KINTSUGI_ASSERT_OK(rig.set("/a/b", 2 * kFileBytes, std::nullopt));
  rig.settle();
  KINTSUGI_EXPECT_OK(rig.put("/a/1"));
  KINTSUGI_EXPECT_OK(rig.put("/a/b/2"));
  EXPECT_EQ(rig.put("/a/b/3").code(), Code::kQuota);
  const auto quotas = rig.at("/a/b/2");
  ASSERT_EQ(quotas.size(), 2u);
  EXPECT_EQ(quotas[0].path(), "/a/b");
  EXPECT_EQ(quotas[0].bytes(), kFileBytes);
  EXPECT_EQ(quotas[1].path(), "/a");
  EXPECT_EQ(quotas[1].bytes(), 2 * kFileBytes);
  // A directory with a quota moves as a whole, and is shown where it is now.
  KINTSUGI_EXPECT_OK(rig.rename("/a/b", "/c"));
  rig.expect_exact();
  KINTSUGI_EXPECT_OK(rig.put("/c/3"));
  EXPECT_EQ(rig.nearest("/c").path(), "/c");
  EXPECT_EQ(rig.rename("/c", "/a/c").code(), Code::kQuota) << "it holds more than there is room for";
  KINTSUGI_EXPECT_OK(rig.remove("/c", true));
  rig.settle();
  EXPECT_EQ(rig.all().size(), 1u);
  rig.expect_exact();
}

TEST(Quotas, FilesMoveAcrossThemAndTreesDoNot) {
  QuotaRig rig;
  for (const char* path : {"/a", "/b", "/b/tree", "/b/empty"})
    KINTSUGI_ASSERT_OK(rig.make_directory(path));
  KINTSUGI_ASSERT_OK(rig.put("/b/tree/f"));
  KINTSUGI_ASSERT_OK(rig.put("/b/g"));
  KINTSUGI_ASSERT_OK(rig.put("/b/twice"));
  KINTSUGI_ASSERT_OK(rig.link("/b/twice", "/b", "again"));
  KINTSUGI_ASSERT_OK(rig.set("/a", kFileBytes, 2));
  EXPECT_EQ(rig.rename("/b/tree", "/a/tree").code(), Code::kCrossDevice);
  EXPECT_EQ(rig.rename("/b/twice", "/a/twice").code(), Code::kCrossDevice);
  EXPECT_EQ(rig.link("/b/g", "/a", "g").code(), Code::kCrossDevice);
  KINTSUGI_EXPECT_OK(rig.rename("/b/empty", "/a/empty"));
  KINTSUGI_EXPECT_OK(rig.rename("/b/g", "/a/g"));
  EXPECT_EQ(rig.nearest("/a").bytes(), kFileBytes);
  EXPECT_EQ(rig.put("/a/h", 1, 1).code(), Code::kQuota);
  KINTSUGI_EXPECT_OK(rig.rename("/a/g", "/b/g"));
  KINTSUGI_EXPECT_OK(rig.put("/a/h"));
  EXPECT_EQ(rig.rename("/b/g", "/a/h", true).code(), Code::kOk) << "it takes the place of what is as large";
  rig.expect_exact();
}

TEST(Quotas, DoNotCountWhatWasRemovedAndIsStillOpen) {
  QuotaRig rig;
  KINTSUGI_ASSERT_OK(rig.make_directory("/a"));
  KINTSUGI_ASSERT_OK(rig.set("/a", kFileBytes, 1));
  KINTSUGI_ASSERT_OK(rig.put("/a/f"));
  const uint64_t file = rig.inode("/a/f");
  proto::KeepSessionRequest hold;
  hold.set_session(7);
  hold.add_hold(file);
  ASSERT_TRUE(rig.call<proto::KeepSessionResponse>(rpc::Method::kKeepSession, hold));
  KINTSUGI_EXPECT_OK(rig.remove("/a/f"));
  EXPECT_EQ(rig.nearest("/a").files(), 0u);
  KINTSUGI_EXPECT_OK(rig.put("/a/g"));
  proto::GetInodeRequest get;
  get.set_inode(file);
  EXPECT_TRUE(rig.call<proto::InodeResponse>(rpc::Method::kGetInode, get)) << "who has it open still has it";
  hold.clear_hold();
  hold.set_ends(true);
  ASSERT_TRUE(rig.call<proto::KeepSessionResponse>(rpc::Method::kKeepSession, hold));
  rig.settle();
  rig.expect_exact();
}

TEST(Quotas, CountWhatIsThereAlready) {
  QuotaRig rig;
  KINTSUGI_ASSERT_OK(rig.make_directory("/a"));
  for (int i = 0; i < 5; ++i) {
    KINTSUGI_ASSERT_OK(rig.make_directory(fmt::format("/a/{}", i)));
    for (int j = 0; j < 40; ++j)
      KINTSUGI_ASSERT_OK(rig.make_directory(fmt::format("/a/{}/{}", i, j)));
    KINTSUGI_ASSERT_OK(rig.put(fmt::format("/a/{}/f", i)));
  }
  KINTSUGI_ASSERT_OK(rig.set("/a", 100 * kMiB, 300));
  EXPECT_TRUE(rig.nearest("/a").counting());
  KINTSUGI_ASSERT_OK(rig.set("/a/0", std::nullopt, 41));
  EXPECT_EQ(rig.make_directory("/a/0/more").code(), Code::kQuota);
  KINTSUGI_ASSERT_OK(rig.unset("/a/0"));
  // Something goes to where the count has been already, or not yet.
  KINTSUGI_EXPECT_OK(rig.rename("/a/4/f", "/a/f"));
  for (int i = 39; i >= 30; --i)
    KINTSUGI_EXPECT_OK(rig.rename(fmt::format("/a/1/{}", i), fmt::format("/a/1/!{}", i)));
  KINTSUGI_EXPECT_OK(rig.rename("/a/3", "/a/0/three"));
  rig.restart();
  KINTSUGI_EXPECT_OK(rig.remove("/a/2", true));
  rig.settle();
  rig.expect_exact();
  EXPECT_EQ(rig.nearest("/a").files(), 4u * 42);
}

TEST(Quotas, StayExactWhateverHappens) {
  int refused = 0;
  for (const uint64_t seed : {1, 2, 3, 4, 5, 6, 7, 8}) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    QuotaRig rig(seed);
    runtime::Random& random = rig.meta_node.runtime().random;
    const auto pick = [&](uint64_t below) { return random.next() % below; };
    const auto directory = [&] {
      std::string path;
      for (uint64_t depth = pick(4); depth > 0; --depth)
        path += fmt::format("/d{}", pick(2));
      return path;
    };
    for (int i = 0; i < 1500; ++i) {
      const std::string path = directory(), other = directory();
      const std::string file = fmt::format("{}/f{}", path, pick(3));
      Status status;
      switch (pick(12)) {
        case 0:
        case 1: status = rig.make_directory(fmt::format("{}/d{}", path, pick(2))); break;
        case 2:
        case 3: status = rig.put(file, 1, 1 + pick(300'000), true); break;
        case 4: status = rig.remove(file); break;
        case 5: status = rig.rename(file, fmt::format("{}/f{}", other, pick(3)), true); break;
        case 6:
          status = rig.rename(fmt::format("{}/d{}", path, pick(2)), fmt::format("{}/d{}", other, pick(2)));
          break;
        case 7:
          if (pick(8) == 0) status = rig.remove(fmt::format("{}/d{}", path, pick(2)), true);
          break;
        case 8: status = rig.set(path.empty() ? "/" : path, 1 + pick(3 * kMiB), 1 + pick(30)); break;
        case 9: status = rig.unset(path.empty() ? "/" : path); break;
        case 10:
          if (rig.inode(file) != 0) status = rig.truncate(file, pick(2) * 1000);
          break;
        case 11:
          if (pick(20) == 0) rig.restart();
          break;
      }
      if (status.code() == Code::kQuota) ++refused;
      if (pick(30) == 0) {
        rig.settle();
        rig.expect_exact();
      }
    }
    rig.settle();
    rig.expect_exact();
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace kintsugi::metaserver
