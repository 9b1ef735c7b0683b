import { graphql } from "react-relay";
import { commitMutation } from "relay-runtime";
import { trying } from "../errors.mjs";
import { isRepeatable } from "../operations.mjs";

const mutations = {
  sendMessage: graphql`mutation actionsSendMessageMutation($input: SendMessageInput!) {
    sendMessage(input: $input) { replayed message { ...Chat_message @relay(mask: false) } }
  }`,
  editMessage: graphql`mutation actionsEditMessageMutation($messageId: ID!, $content: String!) {
    editMessage(messageId: $messageId, content: $content) { ...Chat_message @relay(mask: false) }
  }`,
  recallMessage: graphql`mutation actionsRecallMessageMutation($messageId: ID!) {
    recallMessage(messageId: $messageId) { ...Chat_message @relay(mask: false) }
  }`,
  markRead: graphql`mutation actionsMarkReadMutation($conversationId: ID!, $upToSeq: Int) {
    markRead(conversationId: $conversationId, upToSeq: $upToSeq) { ...Chat_session @relay(mask: false) }
  }`,
  ackManyDelivered: graphql`mutation actionsAckManyDeliveredMutation($marks: [DeliveryMark!]!) {
    ackManyDelivered(marks: $marks) { ...Chat_session @relay(mask: false) }
  }`,
  startTyping: graphql`mutation actionsStartTypingMutation($conversationId: ID!) { startTyping(conversationId: $conversationId) }`,
  stopTyping: graphql`mutation actionsStopTypingMutation($conversationId: ID!) { stopTyping(conversationId: $conversationId) }`,
  createGroup: graphql`mutation actionsCreateGroupMutation($input: CreateGroupInput!) { createGroup(input: $input) { id title name } }`,
  updateGroup: graphql`mutation actionsUpdateGroupMutation($groupId: ID!, $input: UpdateGroupInput!) {
    updateGroup(groupId: $groupId, input: $input) { id title name }
  }`,
  inviteMembers: graphql`mutation actionsInviteMembersMutation($groupId: ID!, $userIds: [ID!]!) {
    inviteMembers(groupId: $groupId, userIds: $userIds) { id title name }
  }`,
  createUpload: graphql`mutation actionsCreateUploadMutation($input: CreateUploadInput!) {
    createUpload(input: $input) { id url method headers { name value } }
  }`,
  completeUpload: graphql`mutation actionsCompleteUploadMutation($uploadId: ID!) {
    completeUpload(uploadId: $uploadId) { id state filename contentType sizeBytes width height thumbHash }
  }`,
  cancelUpload: graphql`mutation actionsCancelUploadMutation($uploadId: ID!) { cancelUpload(uploadId: $uploadId) }`,
  suppressEmbeds: graphql`mutation actionsSuppressEmbedsMutation($messageId: ID!) {
    suppressEmbeds(messageId: $messageId) { ...Chat_message @relay(mask: false) }
  }`,
  leaveGroup: graphql`mutation actionsLeaveGroupMutation($groupId: ID!) { leaveGroup(groupId: $groupId) }`,
};

// Executes one of the mutations. The store takes messages, sessions and groups by their ids.
export function relayAct(environment) {
  const commit = (mutation, variables) => new Promise((resolve, reject) => {
    commitMutation(environment, { mutation, variables, onCompleted: resolve, onError: reject });
  });
  return async (name, variables) => (await trying(() => commit(mutations[name], variables), isRepeatable(name, variables)))[name];
}
