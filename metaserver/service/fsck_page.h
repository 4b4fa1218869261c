/// One page of fsck: the files below a path, whether their chunks can be read, and on request where all of them are.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "erasure/code.h"
#include "metaserver/chunks/block_reports.h"
#include "metaserver/chunks/chunk_map.h"
#include "metaserver/cluster/server_registry.h"
#include "metaserver/namespace/tree_walk.h"
#include "metaserver/service/namespace_parts.h"
#include "metaserver/service/stripe_describer.h"

namespace kintsugi::metaserver {

inline constexpr size_t kFsckInodesOfAPage = 2000;
inline constexpr size_t kFsckStripesOfAPage = 1500;
/// Extents examined, also when many of them name one stripe.
inline constexpr size_t kFsckExtentsOfAPage = 10'000;
/// A page ends early when it has so many, because each names a path.
inline constexpr int kFsckProblemsOfAPage = 200;
inline constexpr size_t kFsckListedBytesOfAPage = 256 << 10;  ///< limit for the stripes listed on a page
/// Servers with hanging chunks that are named; the rest is only counted.
inline constexpr int kFsckServersOfAPage = 1000;

/// A page ends between two files or inside of one, for a file may have any number of extents. A stripe that extents on
/// both sides of the end of a page name is checked on both.
class FsckPage {
 public:
  /// What files are compared with. All of it outlives the page.
  struct Known {
    const NamespaceParts& names;
    const ServerRegistry& servers;
    const ChunkMap& chunks;
    const BlockReports& reports;
    const StripeDescriber& describer;
  };

  /// References outlive it.
  FsckPage(const Known& known, const Reader& reader, const proto::FsckRequest& request,
           proto::FsckResponse& response)
      : known_(known), reader_(reader), request_(request), response_(response) {}

  /// Errors: those of TreeWalk::start.
  Status fill();

 private:
  Status check_tree();
  void check_snapshots(bool in_saved, bool in_names);
  /// Checks stripes of extents that snapshots of directories below one keep, after the key of one.
  void check_saved(InodeId root, std::string_view after);
  struct Stripe {
    const std::string& path;
    StripeId id;
    const proto::StoredStripe& stored;
    const erasure::Code& code;
  };

  /// The file that the page before had begun. False: the page is full.
  bool continue_file();
  /// Begins after an offset in the file. False: the page is full, and is to be continued inside of the file.
  bool check_file(const std::string& path, InodeId content, uint64_t from);
  void check_stripe(const std::string& path, StripeId id);
  /// Counts what of the stripe's available chunks hangs.
  void note_hanging(const Stripe& stripe, const std::vector<uint32_t>& available);
  void list(const Stripe& stripe);
  void add(proto::FsckProblem problem, const std::string& path, StripeId id);
  /// `from` is an offset in the file, from which the next page continues; 0: behind the path.
  void end_at(const std::string& path, uint64_t from);
  void name_hanging_servers();
  bool full() const { return inodes_ >= kFsckInodesOfAPage || full_of_extents(); }
  bool full_of_extents() const;

  const Known known_;
  const Reader& reader_;
  const proto::FsckRequest& request_;
  proto::FsckResponse& response_;
  size_t inodes_ = 0, extents_ = 0, listed_bytes_ = 0;
  std::map<ServerId, uint64_t> hanging_;  ///< chunks of the page on hung disks, by server
};

}  // namespace kintsugi::metaserver
