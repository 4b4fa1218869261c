/// A metaserver, a client that holds a token, and an operator who has the secret.
#pragma once

#include "common/proto/token.pb.h"
#include "common/rpc/token.h"
#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {

using proto::TokenClaims;
using rpc::Method;

class TokenRig : public MetaServerRig {
 public:
  ~TokenRig() { forget_holder(); }

  Result<proto::CreateTokenResponse> create(const std::string& name, TokenClaims::Role role,
                                            const std::string& path = "", bool squash = false,
                                            uint64_t seconds = 0) {
    proto::CreateTokenRequest request;
    request.mutable_claims()->set_name(name);
    request.mutable_claims()->set_role(role);
    request.mutable_claims()->set_path(path);
    request.mutable_claims()->set_squash(squash);
    request.mutable_claims()->set_squash_uid(65534);
    request.mutable_claims()->set_squash_gid(65534);
    request.set_lifetime_seconds(seconds);
    return call<proto::CreateTokenResponse>(Method::kCreateToken, request);
  }
  Code revoke(const std::string& name) {
    proto::RevokeTokenRequest request;
    request.set_name(name);
    return status_of(call<proto::RevokeTokenResponse>(Method::kRevokeToken, request)).code();
  }
  /// From now on held<>() asks with this token.
  void hold(const std::string& text) {
    forget_holder();
    const auto token = rpc::parse_token(text);
    ASSERT_TRUE(token) << token.error();
    holder_ = std::make_unique<rpc::Client>(client_node.runtime(), *token);
  }
  void hold_new(TokenClaims::Role role, const std::string& path = "", bool squash = false) {
    const auto made = create("t" + std::to_string(++made_), role, path, squash);
    ASSERT_TRUE(made) << made.error();
    hold(made->token());
  }
  template <class Response>
  Result<Response> held(Method method, const google::protobuf::MessageLite& request) {
    Response response;
    Context context;
    context.deadline = simulation.now() + 20s;
    const Status status =
        simulation.run(holder_->call(context, {"10.0.0.1", 7000}, method, request, response));
    if (!status.ok()) return status;
    return response;
  }
  template <class Response, class Request>
  Code code(Method method, const Request& request) {
    return status_of(held<Response>(method, request)).code();
  }

  // ---- requests of the holder
  template <class Request>
  static Request at(const std::string& path, uint32_t uid = 0) {
    Request request;
    request.set_path(path);
    request.mutable_caller()->set_uid(uid);
    request.mutable_caller()->set_gid(uid);
    return request;
  }
  Code stat(const std::string& path) {
    return code<proto::StatResponse>(Method::kStat, at<proto::StatRequest>(path));
  }
  Code list(const std::string& path) {
    return code<proto::ListResponse>(Method::kList, at<proto::ListRequest>(path));
  }
  Code mkdir(const std::string& path, uint32_t uid = 0) {
    return code<proto::Empty>(Method::kMakeDirectory, at<proto::MakeDirectoryRequest>(path, uid));
  }
  Code rm(const std::string& path) {
    auto request = at<proto::RemoveRequest>(path);
    request.set_recursive(true);
    return code<proto::Empty>(Method::kRemove, request);
  }
  Code mv(const std::string& from, const std::string& to) {
    proto::RenameRequest request;
    request.set_from(from);
    request.set_to(to);
    return code<proto::Empty>(Method::kRename, request);
  }
  Code open_at(const std::string& path) {
    return code<proto::OpenReadResponse>(Method::kOpenRead, at<proto::OpenReadRequest>(path));
  }
  Code open_by(uint64_t inode) {
    proto::OpenReadRequest request;
    request.set_inode(inode);
    return code<proto::OpenReadResponse>(Method::kOpenRead, request);
  }
  Code list_by(uint64_t inode) {
    proto::ListInodeRequest request;
    request.set_directory(inode);
    return code<proto::ListResponse>(Method::kListInode, request);
  }
  Result<proto::InodeResponse> get(uint64_t inode, bool lease = false) {
    proto::GetInodeRequest request;
    request.set_inode(inode);
    request.set_session(kOwner);
    request.set_lease(lease);
    return held<proto::InodeResponse>(Method::kGetInode, request);
  }
  Code lookup(uint64_t parent, const std::string& name) {
    proto::LookupRequest request;
    request.set_parent(parent);
    request.set_name(name);
    return code<proto::InodeResponse>(Method::kLookup, request);
  }
  Code truncate(uint64_t inode, bool opened = false) {
    proto::SetAttributesRequest request;
    request.set_opened_for_writing(opened);
    request.set_inode(inode);
    request.set_size(1);
    return code<proto::InodeResponse>(Method::kSetAttributes, request);
  }
  Code write_by(uint64_t inode, uint64_t other = 0) {
    proto::WriteExtentsRequest request;
    request.set_inode(inode);
    request.set_size_at_least(10);
    if (other != 0) request.add_more()->set_inode(other);
    return code<proto::WriteExtentsResponse>(Method::kWriteExtents, request);
  }

  // ---- what the operator, who has the secret, does
  uint64_t inode_of(const std::string& path) {
    const auto found = call<proto::StatResponse>(Method::kStat, at<proto::StatRequest>(path));
    EXPECT_TRUE(found) << path;
    return found ? found->attributes().inode() : 0;
  }
  bool rm_as_operator(const std::string& path) {
    auto request = at<proto::RemoveRequest>(path);
    request.set_recursive(true);
    return call<proto::Empty>(Method::kRemove, request).has_value();
  }
  void change(const std::string& path, uint32_t mode, uint32_t uid = 0) {
    proto::SetAttributesRequest request;
    request.set_inode(inode_of(path));
    request.set_mode(mode);
    request.set_uid(uid);
    request.set_gid(uid);
    ASSERT_TRUE(call<proto::InodeResponse>(Method::kSetAttributes, request));
  }
  void make_tree() {
    for (const char* path : {"/p", "/p/in", "/q", "/q/out"})
      KINTSUGI_EXPECT_OK(make_directory(path));
    for (const char* path : {"/p/file", "/p/in/deep", "/q/file", "/file"})
      KINTSUGI_EXPECT_OK(put(path));
  }

 private:
  void forget_holder() {
    if (holder_) simulation.run(holder_->stop());
    holder_.reset();
  }

  std::unique_ptr<rpc::Client> holder_;
  int made_ = 0;
};

}  // namespace kintsugi::metaserver
