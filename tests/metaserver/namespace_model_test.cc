// Random operations against a namespace of maps, with crashes in between: both must say the same.
#include <map>
#include <random>

#include "tests/metaserver/namespace_rig.h"

namespace kintsugi::metaserver {
namespace {

/// Paths to sizes; directories have none.
class Model {
 public:
  Code make_directory(const std::string& path) {
    if (nodes_.contains(path)) return Code::kAlreadyExists;
    if (const Code code = check_parent(path); code != Code::kOk) return code;
    nodes_[path] = std::nullopt;
    return Code::kOk;
  }
  Code put(const std::string& path, uint64_t size, bool replace) {
    if (const Code code = check_parent(path); code != Code::kOk) return code;
    if (nodes_.contains(path) && !replace) return Code::kAlreadyExists;
    if (is_directory(path)) return Code::kIsDirectory;
    nodes_[path] = size;
    return Code::kOk;
  }
  Code remove(const std::string& path, bool recursive) {
    if (const Code code = check_parent(path); code != Code::kOk) return code;
    if (!nodes_.contains(path)) return Code::kNotFound;
    if (!recursive && has_children(path)) return Code::kNotEmpty;
    erase_tree(path);
    return Code::kOk;
  }
  Code rename(const std::string& from, const std::string& to, bool replace) {
    if (const Code code = check_parent(from); code != Code::kOk) return code;
    if (!nodes_.contains(from)) return Code::kNotFound;
    if (const Code code = check_parent(to); code != Code::kOk) return code;
    if (to.starts_with(from + "/")) return Code::kInvalidArgument;
    if (from == to) return Code::kOk;
    if (nodes_.contains(to)) {
      if (!replace) return Code::kAlreadyExists;
      if (is_directory(to) && !is_directory(from)) return Code::kIsDirectory;
      if (!is_directory(to) && is_directory(from)) return Code::kNotDirectory;
      if (has_children(to)) return Code::kNotEmpty;
      erase_tree(to);
    }
    std::map<std::string, std::optional<uint64_t>> moved;
    for (const auto& [path, node] : nodes_) {
      if (path == from || path.starts_with(from + "/")) moved[to + path.substr(from.size())] = node;
    }
    erase_tree(from);
    nodes_.merge(moved);
    return Code::kOk;
  }
  const std::map<std::string, std::optional<uint64_t>>& nodes() const { return nodes_; }

 private:
  bool is_directory(const std::string& path) const {
    if (path.empty()) return true;
    auto found = nodes_.find(path);
    return found != nodes_.end() && !found->second;
  }
  /// Errors come from the first component that is not a directory.
  Code check_parent(const std::string& path) const {
    for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
      const std::string parent = path.substr(0, slash);
      if (!nodes_.contains(parent)) return Code::kNotFound;
      if (!is_directory(parent)) return Code::kNotDirectory;
    }
    return Code::kOk;
  }
  bool has_children(const std::string& path) const {
    auto next = nodes_.lower_bound(path + "/");
    return next != nodes_.end() && next->first.starts_with(path + "/");
  }
  void erase_tree(const std::string& path) {
    std::erase_if(nodes_,
                  [&](const auto& node) { return node.first == path || node.first.starts_with(path + "/"); });
  }
  std::map<std::string, std::optional<uint64_t>> nodes_;
};

std::map<std::string, std::optional<uint64_t>> read_all(NamespaceRig& rig, const std::string& path = "/") {
  std::map<std::string, std::optional<uint64_t>> found;
  const auto listed = rig.names->list(Transaction(*rig.store), path, "", 0);
  EXPECT_TRUE(listed);
  for (const auto& entry : listed->entries()) {
    const std::string child = join(path, entry.name());
    if (entry.attributes().type() == proto::Attributes::FILE) {
      found[child] = entry.attributes().size();
    } else {
      found[child] = std::nullopt;
      found.merge(read_all(rig, child));
    }
  }
  return found;
}

void run_random_operations(uint64_t seed) {
  SCOPED_TRACE("replay with KINTSUGI_SIM_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  NamespaceRig rig(seed);
  Model model;
  const auto any_path = [&] {
    std::string path;
    for (uint64_t depth = 1 + random() % 4; depth > 0; --depth)
      path += "/" + std::string(1, static_cast<char>('a' + random() % 3));
    return path;
  };
  for (int i = 0; i < 600; ++i) {
    const std::string path = any_path(), other = any_path();
    const bool flag = random() % 2 == 0;
    Code expected = Code::kOk;
    Status actual;
    switch (random() % 8) {
      case 0:
      case 1:
      case 2:
        expected = model.make_directory(path);
        actual = rig.make_directory(path);
        break;
      case 3:
      case 4:
        expected = model.put(path, static_cast<uint64_t>(i), flag);
        actual = rig.put(path, static_cast<uint64_t>(i), flag, static_cast<int>(random() % 3));
        break;
      case 5:
        expected = model.remove(path, flag);
        actual = rig.remove(path, flag);
        break;
      default: expected = model.rename(path, other, flag); actual = rig.rename(path, other, flag);
    }
    ASSERT_EQ(actual.code(), expected)
        << "operation " << i << " on " << path << ", " << other << ": " << actual;
    if (i % 20 == 0) {
      ASSERT_EQ(read_all(rig), model.nodes()) << "after operation " << i;
    }
    if (random() % 60 == 0) rig.reopen();
    if (random() % 60 == 0) rig.reclaim_all();
  }
  rig.reclaim_all();
  ASSERT_EQ(read_all(rig), model.nodes());
  // Nothing is left over: every inode has a name, every stripe a file, and the counts are right.
  uint64_t files = 0;
  for (const auto& [path, size] : model.nodes())
    files += size.has_value();
  EXPECT_EQ(rig.totals().files(), files);
  EXPECT_EQ(rig.totals().directories(), model.nodes().size() - files + 1);
  EXPECT_EQ(rig.count(keys::Kind::kInode), model.nodes().size() + 1);
  EXPECT_EQ(rig.count(keys::Kind::kEntry), model.nodes().size());
  EXPECT_EQ(rig.totals().stripes(), rig.count(keys::Kind::kStripe));
  EXPECT_EQ(rig.count(keys::Kind::kServerChunk), 3 * rig.count(keys::Kind::kStripe));
  EXPECT_EQ(rig.count(keys::Kind::kGarbage), 3 * rig.freed.size());
}

TEST(NamespaceModel, AgreesOverRandomOperationsAndCrashes) {
  const uint64_t first = simulation::Simulation::seed_from_environment(1);
  for (uint64_t seed = first; seed < first + 20 && !::testing::Test::HasFatalFailure(); ++seed)
    run_random_operations(seed);
}

}  // namespace
}  // namespace kintsugi::metaserver
