// Names that clients give by themselves, on a whole cluster whose metaserver crashes: everybody sees what was answered.
#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "client/lib/files/open_files.h"
#include "tests/expect_ok.h"
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

struct Directory {
  uint64_t inode = 0;
  std::string path;
  std::map<std::string, uint64_t> names;
};

class Names {
 public:
  explicit Names(uint64_t seed) : cluster({.seed = seed}) {}

  void start() {
    KINTSUGI_ASSERT_OK(cluster.start());
    for (int i = 0; i < 2; ++i) {
      clients.push_back(cluster.client().open_files({.dirty_bytes = 4 << 20, .lease_directories = true}));
      KINTSUGI_ASSERT_OK(cluster.run(clients.back()->session().tell({})));
      const std::string name = fmt::format("d{}", i);
      const auto made = cluster.run(make(*clients.back(), kRoot, name, proto::Attributes::DIRECTORY));
      KINTSUGI_ASSERT(made);
      directories.push_back({made->inode(), "/" + name, {}});
    }
    cluster.run_for(1s);  // ids are reserved
  }
  ~Names() {
    for (auto& files : clients)
      KINTSUGI_EXPECT_OK(cluster.run(files->stop()));
  }

  asio::awaitable<Result<proto::Attributes>> make(client::OpenFiles& files, uint64_t parent,
                                                  const std::string& name, proto::Attributes::Type type) {
    proto::MakeInodeRequest request;
    request.set_parent(parent);
    request.set_name(name);
    request.set_type(type);
    request.set_mode(0755);
    return files.names().make({}, std::move(request));
  }

  /// An inode is known to those only that have been led to it.
  static asio::awaitable<Result<uint64_t>> walk(client::OpenFiles& files, std::string path) {
    uint64_t at = kRoot;
    for (size_t begin = 1; begin < path.size();) {
      const size_t end = std::min(path.find('/', begin), path.size());
      proto::LookupRequest request;
      request.set_parent(at);
      request.set_name(path.substr(begin, end - begin));
      KINTSUGI_CO_ASSIGN(const proto::Attributes found,
                         co_await files.names().lookup({}, std::move(request)));
      at = found.inode();
      begin = end + 1;
    }
    co_return at;
  }

  /// One operation of one client, which must do what the model says.
  void step() {
    const size_t who = cluster.random_below(clients.size());
    client::OpenFiles& files = *clients[who];
    // At first each client is alone in its directories.
    size_t which = cluster.random_below(directories.size());
    while (steps < kAlone && !directories[which].path.starts_with(fmt::format("/d{}", who)))
      which = cluster.random_below(directories.size());
    ++steps;
    const std::string name = fmt::format("n{}", cluster.random_below(20));
    const auto known = directories[which].names.find(name);
    const bool exists = known != directories[which].names.end();
    SCOPED_TRACE(fmt::format("{}/{}", directories[which].path, name));
    const auto reached = cluster.run(walk(files, directories[which].path));
    ASSERT_TRUE(reached) << reached.error();
    ASSERT_EQ(*reached, directories[which].inode);
    switch (cluster.random_below(8)) {
      case 0: {
        proto::UnlinkRequest request;
        request.set_parent(directories[which].inode);
        request.set_name(name);
        for (const Directory& directory : directories)
          request.set_directory(request.directory() || (exists && directory.inode == known->second));
        if (request.directory()) break;
        const auto unlinked = cluster.run(files.names().unlink({}, std::move(request)));
        ASSERT_EQ(unlinked ? Code::kOk : unlinked.error().code(), exists ? Code::kOk : Code::kNotFound);
        removed_back += unlinked && *unlinked != 0;
        if (exists) directories[which].names.erase(known);
        break;
      }
      case 1: {
        const auto listed = cluster.run(cluster.client().list(directories[which].path));
        ASSERT_TRUE(listed) << listed.error();
        std::map<std::string, uint64_t> found;
        for (const proto::DirectoryEntry& entry : listed->entries())
          found[entry.name()] = entry.attributes().inode();
        EXPECT_EQ(found, directories[which].names) << "by path";
        break;
      }
      case 2: {
        if (exists) set_mode(files, known->second);
        break;
      }
      case 3:
      case 4: {
        proto::LookupRequest request;
        request.set_parent(directories[which].inode);
        request.set_name(name);
        const auto found = cluster.run(files.names().lookup({}, std::move(request)));
        ASSERT_EQ(found ? Code::kOk : found.error().code(), exists ? Code::kOk : Code::kNotFound);
        if (!exists) break;
        EXPECT_EQ(found->inode(), known->second);
        if (modes.contains(known->second)) EXPECT_EQ(found->mode(), modes[known->second]);
        break;
      }
      default: {
        const bool directory = cluster.random_below(6) == 0 && directories.size() < 12;
        const auto made =
            cluster.run(make(files, directories[which].inode, name,
                             directory ? proto::Attributes::DIRECTORY : proto::Attributes::FILE));
        ASSERT_EQ(made ? Code::kOk : made.error().code(), exists ? Code::kAlreadyExists : Code::kOk);
        if (exists) break;
        kept_back += files.names().pending();
        const std::string path = directories[which].path + "/" + name;
        directories[which].names[name] = made->inode();
        if (directory) directories.push_back({made->inode(), path, {}});
      }
    }
  }

  /// As `chmod` does it, or `touch` and others who open the file for that.
  void set_mode(client::OpenFiles& files, uint64_t inode) {
    const bool is_directory = std::ranges::any_of(
        directories, [&](const Directory& directory) { return directory.inode == inode; });
    std::unique_ptr<client::OpenHandle> handle;
    if (!is_directory && cluster.random_below(2) == 0) {
      auto opened = cluster.run(files.open({}, inode, true));
      ASSERT_TRUE(opened) << opened.error();
      handle = std::move(*opened);
    }
    proto::SetAttributesRequest request;
    request.set_inode(inode);
    request.set_mode(0700 + static_cast<uint32_t>(cluster.random_below(8)));
    const auto set = files.set_attributes(request);
    if (!set) KINTSUGI_EXPECT_OK(cluster.run(set_by_call(files, request)));
    set_under_leases += set.has_value() && handle;
    modes[inode] = request.mode();
    if (!handle) return;
    KINTSUGI_EXPECT_OK(cluster.run(handle->close({})));
    // The session may have something to say just then.
    if (cluster.random_below(2) == 0) KINTSUGI_EXPECT_OK(cluster.run(files.session().tell({})));
  }

  asio::awaitable<Status> set_by_call(client::OpenFiles& files, proto::SetAttributesRequest request) {
    const auto set = co_await files.calls().set_attributes({}, std::move(request));
    co_return set ? Status{} : set.error();
  }

  SimulatedCluster cluster;
  std::vector<std::unique_ptr<client::OpenFiles>> clients;
  std::vector<Directory> directories;
  std::map<uint64_t, uint32_t> modes;
  uint64_t kept_back = 0, removed_back = 0, set_under_leases = 0;
  static constexpr int kAlone = 80;
  int steps = 0;
};

TEST(LeasedNamesInACluster, AreWhatTheModelSaysForEverybodyThroughCrashes) {
  const std::vector<uint64_t> chosen = seeds({1, 2, 3, 4, 5, 6});
  uint64_t kept_back = 0, removed_back = 0, set_under_leases = 0;
  for (const uint64_t seed : chosen) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Names names(seed);
    names.start();
    for (int i = 0; i < 200 && !testing::Test::HasFailure(); ++i) {
      SCOPED_TRACE(fmt::format("step {}", i));
      if (names.cluster.random_below(25) == 0) {
        names.cluster.crash_metaserver(names.cluster.random_below(2) == 0 ? Crash::kPower : Crash::kKill);
        names.cluster.run_for(names.cluster.random_time(0s, 3s));
        names.cluster.restart_metaserver();
      }
      if (names.cluster.random_below(20) == 0) names.cluster.run_for(names.cluster.random_time(0s, 4s));
      names.step();
    }
    kept_back += names.kept_back;
    removed_back += names.removed_back;
    set_under_leases += names.set_under_leases;
    if (testing::Test::HasFailure()) return;
  }
  // A seed alone may have taken all leases away early.
  if (chosen.size() > 1)
    EXPECT_GT(std::min({kept_back, removed_back, set_under_leases}), 0u)
        << "nothing was kept back: this shows nothing";
}

TEST(LeasedNamesInACluster, NoMoreAreKnownThanThereMayBe) {
  constexpr size_t kKnown = 60;
  SimulatedCluster cluster({.seed = 1});
  KINTSUGI_ASSERT_OK(cluster.start());
  auto files =
      cluster.client().open_files({.dirty_bytes = 4 << 20, .lease_directories = true, .known_names = kKnown});
  KINTSUGI_ASSERT_OK(cluster.run(files->session().tell({})));
  proto::MakeInodeRequest request;
  request.set_mode(0755);
  uint64_t first = 0, last = 0, made_here = 0;
  for (const char* name : {"d0", "d1", "d2"}) {
    request.set_parent(kRoot);
    request.set_name(name);
    request.set_type(proto::Attributes::DIRECTORY);
    const auto directory = cluster.run(files->names().make({}, request));
    ASSERT_TRUE(directory) << directory.error();
    cluster.run_for(1s);  // ids are reserved
    last = directory->inode();
    if (first == 0) first = last;
    request.set_parent(last);
    request.set_type(proto::Attributes::FILE);
    // In the last one are more than may be known.
    for (int i = 0; i < (name == std::string_view("d2") ? 100 : 25); ++i) {
      request.set_name(fmt::format("f{:03}", i));
      const auto file = cluster.run(files->names().make({}, request));
      ASSERT_TRUE(file) << file.error();
      made_here += files->names().made(file->inode()) != nullptr;
      EXPECT_LE(files->names().known(), kKnown);
    }
    if (name != std::string_view("d2")) EXPECT_TRUE(files->names().is_leased(last));
  }
  EXPECT_GT(made_here, kKnown) << "nothing is made under leases: this shows nothing";
  EXPECT_FALSE(files->names().is_leased(first)) << "the oldest one ends first";
  cluster.run_for(5s);
  for (const uint64_t directory : {first, last})
    EXPECT_FALSE(files->session().has_lease(directory)) << "what is not known is not leased";
  for (const auto& [path, count] : {std::pair{"/d0", 25}, std::pair{"/d2", 100}}) {
    const auto listed = cluster.run(cluster.client().list(path));
    ASSERT_TRUE(listed) << listed.error();
    EXPECT_EQ(listed->entries_size(), count);
  }
  KINTSUGI_EXPECT_OK(cluster.run(files->stop()));
}

TEST(LeasedNamesInACluster, LinksWithLongTargetsAreWrittenHoweverManyWait) {
  SimulatedCluster cluster({.seed = 1});
  KINTSUGI_ASSERT_OK(cluster.start());
  auto files = cluster.client().open_files({.dirty_bytes = 4 << 20, .lease_directories = true});
  KINTSUGI_ASSERT_OK(cluster.run(files->session().tell({})));
  proto::MakeInodeRequest request;
  request.set_mode(0755);
  request.set_parent(kRoot);
  request.set_name("d");
  request.set_type(proto::Attributes::DIRECTORY);
  const auto directory = cluster.run(files->names().make({}, request));
  ASSERT_TRUE(directory) << directory.error();
  cluster.run_for(1s);  // ids are reserved
  request.set_parent(directory->inode());
  request.set_type(proto::Attributes::SYMLINK);
  request.set_target(std::string(4095, 't'));
  // As an archive is unpacked: each link gets its owner and its times.
  int links = 0, changes = 0;
  while (true) {
    request.set_name(fmt::format("l{}", links));
    const auto link = cluster.run(files->names().make({}, request));
    ASSERT_TRUE(link) << link.error();
    ++links;
    if (files->names().made(link->inode()) == nullptr) break;  // the log was full
    for (int i = 1; i <= 3; ++i) {
      proto::SetAttributesRequest times;
      times.set_inode(link->inode());
      times.set_modified_ns(i);
      changes += files->set_attributes(times).has_value();
    }
  }
  EXPECT_GT(changes, 500) << "few waited: this shows nothing";
  cluster.run_for(5s);
  EXPECT_FALSE(files->names().pending());
  const auto listed = cluster.run(cluster.client().list("/d"));
  ASSERT_TRUE(listed) << listed.error();
  EXPECT_EQ(listed->entries_size(), links);
  for (const proto::DirectoryEntry& entry : listed->entries())
    EXPECT_EQ(entry.attributes().target().size(), 4095u);
  KINTSUGI_EXPECT_OK(cluster.run(files->stop()));
}

TEST(LeasedNamesInACluster, TheNextProcessGoesOnWithWhatTheLastOneHadAnswered) {
  for (const uint64_t seed : seeds({1, 2, 3})) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    SimulatedCluster cluster({.seed = seed});
    KINTSUGI_ASSERT_OK(cluster.start());
    client::ChangeJournal journal;
    std::vector<std::byte> log(client::NameLog::kBytes);
    const client::FilesOptions options{.dirty_bytes = 4 << 20, .lease_directories = true};
    auto files = cluster.client().open_files(options, nullptr, &journal, log);
    KINTSUGI_ASSERT_OK(cluster.run(files->session().tell({})));
    proto::MakeInodeRequest request;
    request.set_parent(kRoot);
    request.set_name("d");
    request.set_type(proto::Attributes::DIRECTORY);
    request.set_mode(0755);
    const auto directory = cluster.run(files->names().make({}, request));
    ASSERT_TRUE(directory) << directory.error();
    cluster.run_for(1s);
    request.set_parent(directory->inode());
    request.set_type(proto::Attributes::FILE);
    std::map<std::string, uint64_t> made;
    for (int i = 0; i < 20; ++i) {
      request.set_name(fmt::format("f{}", i));
      const auto file = cluster.run(files->names().make({}, request, 100 + i));
      ASSERT_TRUE(file) << file.error();
      made[request.name()] = file->inode();
    }
    ASSERT_TRUE(files->names().pending()) << "nothing is kept back: this shows nothing";
    proto::UnlinkRequest removal;
    removal.set_parent(directory->inode());
    removal.set_name("f3");
    const auto removed = cluster.run(files->names().unlink({}, removal, 120));
    ASSERT_TRUE(removed) << removed.error();
    EXPECT_EQ(*removed, made["f3"]) << "it is removed without a call";
    made.erase("f3");
    const bool both = cluster.random_below(2) == 0;
    if (both) cluster.crash_metaserver(Crash::kPower);
    KINTSUGI_EXPECT_OK(cluster.run(files->stop(true)));
    if (both) cluster.restart_metaserver();
    files = cluster.client().open_files(options, nullptr, &journal, log);
    // The kernel sends a request again whose answer it did not get.
    const auto again = cluster.run(files->names().make({}, request, 119));
    ASSERT_TRUE(again) << again.error();
    EXPECT_EQ(again->inode(), made["f19"]);
    const auto removed_again = cluster.run(files->names().unlink({}, removal, 120));
    ASSERT_TRUE(removed_again) << removed_again.error();
    const auto listed = cluster.run(cluster.client().list("/d"));
    ASSERT_TRUE(listed) << listed.error();
    std::map<std::string, uint64_t> found;
    for (const proto::DirectoryEntry& entry : listed->entries())
      found[entry.name()] = entry.attributes().inode();
    EXPECT_EQ(found, made);
    KINTSUGI_EXPECT_OK(cluster.run(files->stop()));
  }
}

}  // namespace
}  // namespace kintsugi::simulation
