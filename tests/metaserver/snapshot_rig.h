/// A metaserver with what the tests of snapshots do to it and see of it.
#pragma once

#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {

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
  Status set_xattr(uint64_t id, const std::string& value, const std::string& name = "user.x") {
    proto::SetXattrRequest request;
    request.set_inode(id);
    request.set_name(name);
    request.set_value(value);
    return status_of(call<proto::Empty>(rpc::Method::kSetXattr, request));
  }
  std::string xattr(uint64_t id, const std::string& name = "user.x") {
    proto::GetXattrRequest request;
    request.set_inode(id);
    request.set_name(name);
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
  /// As they are in the store: no call is made, and no time passes.
  std::map<std::string, std::string> inode_records() {
    std::map<std::string, std::string> found;
    const keys::Range range = keys::all(keys::Kind::kInode);
    store->scan(range.begin, range.end, [&](std::string_view key, std::string_view value) {
      found.emplace(key, value);
      return true;
    });
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
      if (static_cast<keys::Kind>(keys::SavedKey::of_value(key).key[0]) != keys::Kind::kExtent) return true;
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
    // A trash may be taken away in the background between two calls.
    if (!listed && listed.error().code() == Code::kNotFound && !below.empty()) return;
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
      proto::ListXattrsRequest all;
      all.set_inode(entry.attributes().inode());
      const auto attributes = call<proto::ListXattrsResponse>(rpc::Method::kListXattrs, all);
      ASSERT_TRUE(attributes) << attributes.error();
      for (const std::string& name : attributes->names())
        shown += fmt::format(" {}={}", name, xattr(entry.attributes().inode(), name));
    }
  }
};

}  // namespace kintsugi::metaserver
