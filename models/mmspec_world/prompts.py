"""The prompts of published datasets, and other wordings of the same requests.

The first of several wordings is the published one."""

IMAGE = "<image>"
REASONED = (
    "For the following question, provide a detailed explanation of your reasoning "
    "leading to the answer.\n"
)
SPOT = (
    f"Explain the disparities between the first and second image. {IMAGE} {IMAGE} Difference:",
    "What is the difference between the two images?",
    "Explain the disparities between the first and second image.",
    "What has changed from the first picture to the second?",
)
EDIT = (
    "Please provide instructions for editing the source image to match the target image. "
    f"Source Image: {IMAGE} Target Image: {IMAGE} Instruction:",
    "How do I edit the first image to get the second one?",
    "Please provide instructions for editing the first image to match the second image.",
)
PORORO = (
    "Given the progression of the story with the first few images, can you write a fitting end "
    "considering the last image?"
)
VIST = (
    "With the narratives paired with the initial images, how would you conclude the story "
    "using the last picture?"
)
CAPTION = "Provide a one-sentence caption for the provided image."
DETAILED_CAPTION = "Provide a detailed caption for the provided image."
VIDEO = (
    "Provide a detailed caption for the provided video.",
    "These are frames of a video. What happens in it?",
    "Describe the video from its frames.",
)
STEPS = "Answer the question with a chain of thought."
